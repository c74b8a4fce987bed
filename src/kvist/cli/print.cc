#include "kvist/cli/print.h"

#include <algorithm>
#include <cstdio>
#include <string>

namespace kvist::cli {
namespace {

/// What makes a terminal do something. Names of runs and messages of peers are among what is printed.
bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F;
}

}  // namespace

void print_line(std::string_view line) {
  std::string text(line);
  std::ranges::replace_if(text, is_control, ' ');
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

}  // namespace kvist::cli
