#include "kvist/openai/json_scanner.h"

#include <algorithm>

namespace kvist::openai {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// A quote, or a bracket of either kind: in ASCII, square and curly ones differ in one bit.
bool is_structure(char c) {
  const char curly = static_cast<char>(c | 0x20);
  return c == '"' || curly == '{' || curly == '}';
}

// After so many bytes without what is looked for a jump is tried. It would take longer where jumps are short: most
// strings are, and a text may be full of escaped quotes or of brackets.
constexpr std::size_t kQuietBytes = 32;

// Compilers make a few vector instructions of this, because the number of bytes is fixed.
constexpr std::size_t kBlockBytes = 64;
bool has_structure(const char* block) {
  unsigned found = 0;
  for (std::size_t i = 0; i < kBlockBytes; ++i) found |= static_cast<unsigned>(is_structure(block[i]));
  return found != 0;
}

}  // namespace

std::size_t JsonScanner::skip_space(std::size_t at) const {
  while (at < text_.size() && is_space(text_[at])) ++at;
  return std::min(at, text_.size());
}

std::size_t JsonScanner::skip_string(std::size_t begin) const {
  const char* const data = text_.data();
  const std::size_t size = text_.size();
  std::size_t quiet = 0;
  for (std::size_t i = begin + 1; i < size; ++i) {
    if (data[i] == '"') return i + 1;
    if (data[i] == '\\') {
      ++i;
      if (i < size && (data[i] == '"' || data[i] == '\\')) quiet = 0;
    } else if (++quiet >= kQuietBytes) {
      const std::size_t quote = text_.find('"', i);
      if (quote == std::string_view::npos) return quote;
      // It belongs to the string if the number of backslashes before it is odd.
      std::size_t escapes = quote;
      while (escapes > i && data[escapes - 1] == '\\') --escapes;
      if ((quote - escapes) % 2 == 0) return quote + 1;
      i = quote;
      quiet = 0;
    }
  }
  return std::string_view::npos;
}

std::size_t JsonScanner::skip_scalar(std::size_t begin) const {
  const auto ends = [](char c) { return c == ',' || c == ']' || c == '}' || is_space(c); };
  std::size_t i = begin;
  while (i < text_.size() && !ends(text_[i])) ++i;
  return i == begin || i >= text_.size() ? std::string_view::npos : i;
}

std::size_t JsonScanner::skip_value(std::size_t begin) const {
  if (at(begin) == '"') return skip_string(begin);
  if (at(begin) != '{' && at(begin) != '[') return skip_scalar(begin);
  const char* const data = text_.data();
  const std::size_t size = text_.size();
  std::size_t depth = 0;
  std::size_t quiet = 0;
  for (std::size_t i = begin; i < size;) {
    if (!is_structure(data[i])) {
      ++i;
      if (++quiet < kQuietBytes) continue;
      while (size - i >= kBlockBytes && !has_structure(data + i)) i += kBlockBytes;
      quiet = 0;
      continue;
    }
    quiet = 0;
    if (data[i] == '"') {
      i = skip_string(i);
      if (i == std::string_view::npos) return i;
      continue;
    }
    if (data[i] == '{' || data[i] == '[') {
      ++depth;
    } else {
      --depth;
    }
    ++i;
    if (depth == 0) return i;
  }
  return std::string_view::npos;
}

}  // namespace kvist::openai
