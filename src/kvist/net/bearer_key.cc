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

Result<std::string> first_bytes_of(const std::string& file, std::size_t most) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return fail(ErrorCode::kNotFound, fmt::format("{}: {}", file, std::strerror(errno)));
  std::string text(most, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

/// Without what an editor leaves at the end of a line.
std::string_view trimmed(std::string_view line) {
  while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);
  return line;
}

}  // namespace

bool is_bearer_key(std::string_view text) {
  return !text.empty() && text.size() <= kMostKeyBytes &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

Result<std::string> read_bearer_key(const std::string& file) {
  KVIST_TRY(const std::string text, first_bytes_of(file, kMostKeyBytes + 2));
  const std::string_view key = trimmed(std::string_view(text).substr(0, text.find('\n')));
  if (is_bearer_key(key)) return std::string(key);
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: expected one key in its first line, of at most {} printable characters without spaces",
                          file, kMostKeyBytes));
}

Result<std::string> read_header_value(const std::string& file) {
  KVIST_TRY(const std::string text, first_bytes_of(file, kMostKeyBytes + 2));
  const std::string_view line = trimmed(std::string_view(text).substr(0, text.find('\n')));
  if (!line.empty() && line.size() <= kMostKeyBytes && line.front() != ' ' &&
      std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; }))
    return std::string(line);
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: expected a header field's value in its first line, of at most {} printable characters",
                          file, kMostKeyBytes));
}

std::string_view sent_key(const Headers& headers) {
  constexpr std::string_view kScheme = "bearer ";
  if (const auto given = headers.find("Authorization")) {
    if (!equals_no_case(given->substr(0, kScheme.size()), kScheme)) return {};
    std::string_view key = given->substr(kScheme.size());
    while (key.starts_with(' ')) key.remove_prefix(1);
    return key;
  }
  return headers.find("X-API-Key").value_or("");
}

Result<BearerKeys> BearerKeys::read(const std::string& file) {
  constexpr std::size_t kMostBytes = 2 * kMost * (kMostKeyBytes + 2);
  KVIST_TRY(const std::string text, first_bytes_of(file, kMostBytes + 1));
  BearerKeys keys;
  std::size_t line = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view key = trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++line;
    if (key.empty()) continue;
    if (!is_bearer_key(key)) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: expected a key in line {}, of at most {} printable characters without spaces", file,
                              line, kMostKeyBytes));
    }
    keys.hashes_.push_back(sha256(key));
  }
  if (!keys.hashes_.empty() && keys.hashes_.size() <= kMost && text.size() <= kMostBytes) return keys;
  return fail(ErrorCode::kInvalidArgument, fmt::format("{}: expected 1 to {} keys, one in each line", file, kMost));
}

bool BearerKeys::has(std::string_view key) const {
  const Sha256 asked = sha256(key);
  bool found = false;
  for (const Sha256& hash : hashes_) found |= equal_in_constant_time(hash, asked);
  return found;
}

}  // namespace kvist::net
