#include "kvist/gateway/answer_relay.h"

#include <utility>

#include "kvist/openai/codec.h"

namespace kvist::gateway {
namespace {

// Whether the chunk has a usage that is not null: some servers write "usage":null into every chunk. Quotes within text
// are escaped in JSON, so the key cannot be mistaken for content; a content of just "usage" costs one needless parse.
bool mentions_usage(std::string_view data) {
  constexpr std::string_view kKey = "\"usage\"";
  for (std::size_t at = data.find(kKey); at != std::string_view::npos; at = data.find(kKey, at + 1)) {
    const std::size_t value = data.find_first_not_of(": \t", at + kKey.size());
    if (value == std::string_view::npos || !data.substr(value).starts_with("null")) return true;
  }
  return false;
}

}  // namespace

Result<void> AnswerRelay::feed(std::string_view bytes, std::string& out) {
  KVIST_TRY_VOID(parser_.feed(bytes));
  net::SseParser::Event event;
  while (parser_.next(event)) {
    if (event.data.empty() || inspect(event.data)) out += event.raw;
  }
  return {};
}

bool AnswerRelay::inspect(std::string_view data) {
  if (data == "[DONE]") {
    state_.done = true;
    return true;
  }
  if (state_.first_token && !mentions_usage(data) && !data.contains("\"error\"")) {
    ++state_.tokens;
    return true;
  }
  auto chunk = openai::parse_chunk(data);
  if (!chunk) {
    ++state_.unreadable;
    return true;
  }
  if (chunk->usage) state_.usage = chunk->usage;
  if (chunk->error) state_.error = std::move(chunk->error);
  if (!chunk->content.empty() || chunk->finish_reason) state_.first_token = true;
  if (state_.first_token && !chunk->content.empty()) ++state_.tokens;
  return usage_wanted_ || !chunk->usage_only || !chunk->usage;
}

}  // namespace kvist::gateway
