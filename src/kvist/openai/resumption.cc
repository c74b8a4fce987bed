#include "kvist/openai/resumption.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>

#include "kvist/openai/tokens_json.h"

namespace kvist::openai {
namespace {

constexpr std::uint64_t kMostToken = std::numeric_limits<std::uint32_t>::max();

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Reads a decimal number of at most ten digits and moves `at` behind it; nothing if there is none.
std::optional<std::uint64_t> take_number(std::string_view text, std::size_t& at) {
  constexpr std::size_t kMostDigits = 10;
  const std::size_t begin = at;
  std::uint64_t number = 0;
  for (; at < text.size() && is_digit(text[at]) && at - begin < kMostDigits; ++at)
    number = number * 10 + static_cast<std::uint64_t>(text[at] - '0');
  if (at == begin) return std::nullopt;
  return number;
}

}  // namespace

std::optional<std::int64_t> read_resumable(std::string_view value) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size() || number < 0) return std::nullopt;
  return number;
}

void append_token_note(std::string& out, std::uint32_t events, std::span<const TokenId> tokens) {
  fmt::format_to(std::back_inserter(out), ":{}", events);
  for (const TokenId token : tokens) fmt::format_to(std::back_inserter(out), ",{}", token.value());
  out += '\n';
}

std::optional<TokenNote> read_token_note(std::string_view event) {
  if (!event.starts_with(':')) return std::nullopt;
  const std::string_view line = event.substr(0, kMaxTokenNoteBytes);
  std::size_t at = 1;
  const auto events = take_number(line, at);
  if (!events || *events == 0 || *events > kMaxGroupedEvents) return std::nullopt;
  const std::size_t tokens = at;
  while (at < line.size() && line[at] == ',') {
    ++at;
    const auto token = take_number(line, at);
    if (!token || *token > kMostToken) return std::nullopt;
  }
  if (at == line.size() || line[at] != '\n') return std::nullopt;
  return TokenNote{
      .events = static_cast<std::uint32_t>(*events), .tokens = line.substr(tokens, at - tokens), .bytes = at + 1};
}

void append_tokens_of(const TokenNote& note, std::vector<TokenId>& out) {
  for (std::size_t at = 0; at < note.tokens.size();) {
    ++at;  // the comma
    out.emplace_back(static_cast<std::uint32_t>(take_number(note.tokens, at).value_or(0)));
  }
}

std::string with_resumption(std::string_view body, std::span<const TokenId> tokens, std::int64_t created) {
  // Only white space, or a byte order mark, can be before it.
  const std::size_t begin = std::min(body.find('{'), body.size());
  constexpr std::size_t kBytesPerToken = 7;
  std::string out;
  out.reserve(body.size() + tokens.size() * kBytesPerToken + 64);
  out += body.substr(0, begin);
  out += R"({"kvist_resume":{"created":)";
  out += std::to_string(created);
  out += R"(,"token_ids":)";
  append_tokens_json(out, tokens);
  out += "},";
  out += body.substr(std::min(begin + 1, body.size()));
  return out;
}

}  // namespace kvist::openai
