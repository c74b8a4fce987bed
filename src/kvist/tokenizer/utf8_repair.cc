#include "kvist/tokenizer/utf8_repair.h"

#include "kvist/base/utf8.h"

namespace kvist::tokenizer {

std::size_t broken_utf8_prefix(std::string_view text) {
  for (std::size_t length = 3; length > 1; --length) {
    if (text.size() >= length && utf8_incomplete_tail(text.substr(0, length)) == length) return length;
  }
  return 1;
}

void append_repaired_utf8(std::string_view text, std::string& out) {
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    if (length > 0) {
      out.append(text.substr(0, length));
      text.remove_prefix(length);
    } else {
      out.append(kReplacementCharacter);
      text.remove_prefix(broken_utf8_prefix(text));
    }
  }
}

}  // namespace kvist::tokenizer
