#include "kvist/net/bearer_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>

namespace kvist::net {
namespace {

constexpr std::size_t kMostKeyBytes = 4'096;

}  // namespace

bool is_bearer_key(std::string_view text) {
  return !text.empty() && text.size() <= kMostKeyBytes &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

Result<std::string> read_bearer_key(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return fail(ErrorCode::kNotFound, fmt::format("{}: {}", file, std::strerror(errno)));
  std::string text(kMostKeyBytes + 2, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  std::string key = text.substr(0, text.find('\n'));
  while (!key.empty() && (key.back() == '\r' || key.back() == ' ')) key.pop_back();
  if (!is_bearer_key(key)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: expected one key in its first line, of at most {} printable characters without spaces",
                            file, kMostKeyBytes));
  }
  return key;
}

}  // namespace kvist::net
