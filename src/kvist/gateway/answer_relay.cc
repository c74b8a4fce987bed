#include "kvist/gateway/answer_relay.h"

#include <utility>

#include "kvist/base/json_writer.h"
#include "kvist/openai/codec.h"

namespace kvist::gateway {
namespace {

// Whether the chunk has a field of this name, given in quotes, that is not null: servers write "usage":null and
// "finish_reason":null into every chunk. Content is not mistaken for the key, because quotes within JSON strings are
// escaped. Only a content that is exactly "usage" causes a needless parse.
bool mentions(std::string_view data, std::string_view key) {
  for (std::size_t at = data.find(key); at != std::string_view::npos; at = data.find(key, at + 1)) {
    const std::size_t value = data.find_first_not_of(": \t", at + key.size());
    if (value == std::string_view::npos || !data.substr(value).starts_with("null")) return true;
  }
  return false;
}

// The event, which is one JSON object, with a field added at its end.
std::string with_fingerprint(std::string_view event, std::string_view fingerprint) {
  const std::size_t end = event.rfind('}');
  std::string out(event.substr(0, end));
  out += R"(,"system_fingerprint":)";
  append_json_string(out, fingerprint);
  out += event.substr(end);
  return out;
}

}  // namespace

Result<void> AnswerRelay::feed(std::string_view bytes, std::string& out) {
  KVIST_TRY_VOID(parser_.feed(bytes));
  net::SseParser::Event event;
  while (parser_.next(event)) {
    const Fate fate = event.data.empty() ? Fate::kForward : inspect(event.data);
    if (fate == Fate::kDrop && !held_.empty() && !state_.fingerprint.empty())
      held_ = with_fingerprint(held_, state_.fingerprint);
    release(out);
    if (fate == Fate::kForward) out += event.raw;
    if (fate == Fate::kStamp) out += with_fingerprint(event.raw, fingerprint_);
    if (fate == Fate::kHold) held_ = event.raw;
  }
  return {};
}

void AnswerRelay::release(std::string& out) {
  out += held_;
  held_.clear();
}

AnswerRelay::Fate AnswerRelay::inspect(std::string_view data) {
  if (data == "[DONE]") {
    state_.done = true;
    return Fate::kForward;
  }
  if (state_.first_token && !mentions(data, R"("usage")") && !mentions(data, R"("finish_reason")") &&
      !data.contains(R"("error")")) {
    ++state_.tokens;
    return Fate::kForward;
  }
  auto chunk = openai::parse_chunk(data);
  if (!chunk) {
    ++state_.unreadable;
    return Fate::kForward;
  }
  if (chunk->usage) state_.usage = chunk->usage;
  if (chunk->error) {
    state_.error = std::move(chunk->error);
    state_.error_status = chunk->error_status;
  }
  if (chunk->generates || chunk->finish_reason) state_.first_token = true;
  if (chunk->generates) ++state_.tokens;
  if (!usage_wanted_ && chunk->usage_only && chunk->usage) {
    state_.fingerprint = std::move(chunk->system_fingerprint);
    return Fate::kDrop;
  }
  if (!chunk->finish_reason) return Fate::kForward;
  state_.finished = true;
  if (usage_wanted_ || !chunk->system_fingerprint.empty()) return Fate::kForward;
  return fingerprint_.empty() ? Fate::kHold : Fate::kStamp;
}

}  // namespace kvist::gateway
