#include "kvist/base/utf8.h"

#include <algorithm>
#include <cstdint>

namespace kvist {
namespace {

std::uint8_t byte_at(std::string_view text, std::size_t i) {
  return static_cast<std::uint8_t>(text[i]);
}

struct Lead {
  std::size_t length = 0;          // 0: not a lead byte
  std::uint8_t second_low = 0x80;  // bounds of the second byte (Unicode 15, table 3-7)
  std::uint8_t second_high = 0xBF;
};

Lead classify(std::uint8_t lead) {
  if (lead < 0x80) return {1};
  if (lead < 0xC2) return {0};
  if (lead < 0xE0) return {2};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

// The number of bytes of `text` that fit the sequence announced by its first byte.
std::size_t valid_prefix(std::string_view text, const Lead& lead) {
  std::size_t i = 1;
  for (; i < std::min(lead.length, text.size()); ++i) {
    const std::uint8_t low = i == 1 ? lead.second_low : 0x80;
    const std::uint8_t high = i == 1 ? lead.second_high : 0xBF;
    if (byte_at(text, i) < low || byte_at(text, i) > high) break;
  }
  return i;
}

}  // namespace

std::size_t utf8_sequence_length(std::string_view text) {
  if (text.empty()) return 0;
  const Lead lead = classify(byte_at(text, 0));
  if (lead.length == 0 || lead.length > text.size()) return 0;
  return valid_prefix(text, lead) == lead.length ? lead.length : 0;
}

std::size_t utf8_incomplete_tail(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const std::string_view tail = text.substr(text.size() - back);
    const Lead lead = classify(byte_at(tail, 0));
    if (lead.length == 0) continue;
    return lead.length > back && valid_prefix(tail, lead) == back ? back : 0;
  }
  return 0;
}

}  // namespace kvist
