#include "kvist/loadgen/answer_reader.h"

#include <fmt/format.h>

#include "kvist/openai/codec.h"

namespace kvist::loadgen {

Result<void> AnswerReader::feed(std::string_view bytes, TimePoint at) {
  if (done_) return {};
  if (const auto data = parser_.data_of_whole_event(bytes)) {  // as a rule: nothing has to be kept
    ++events_;
    return data->empty() ? Result<void>() : read_event(*data, at);
  }
  KVIST_TRY_VOID(parser_.feed(bytes));
  net::SseParser::Event event;
  while (!done_ && parser_.next(event)) {
    ++events_;
    if (!event.data.empty()) KVIST_TRY_VOID(read_event(event.data, at));
  }
  return {};
}

Result<void> AnswerReader::check_whole() const {
  if (!done_) return fail(ErrorCode::kCorrupt, "the stream ended without [DONE]");
  return clock_->check_answer();
}

Result<void> AnswerReader::read_event(std::string_view data, TimePoint at) {
  if (data == "[DONE]") {
    done_ = true;
    done_at_ = at;
    return {};
  }
  if (const auto content = frame_.content_of(data)) return add_content(*content, true, at);
  KVIST_TRY(const openai::ChunkView chunk, openai::parse_chunk(data));
  if (chunk.error) return fail(ErrorCode::kUnavailable, fmt::format("error frame: {}", *chunk.error));
  if (chunk.usage) {
    const openai::Usage& usage = *chunk.usage;
    clock_->on_usage(usage.prompt_tokens,
                     usage.reports_cached_tokens ? std::optional(usage.cached_tokens) : std::nullopt,
                     usage.completion_tokens);
  }
  frame_.learn(data, chunk);
  return add_content(chunk.content, chunk.generates, at);
}

// Who reads an answer sees its reasoning, and usage counts its tokens: a clock that began with the content behind it
// would give them no time.
Result<void> AnswerReader::add_content(std::string_view content, bool generates, TimePoint at) {
  if (!generates) return {};
  clock_->on_content(at);
  if (content.empty()) ++chunks_beside_reply_;
  if (reply_.size() + content.size() > kMaxReplyBytes) {
    return fail(ErrorCode::kTooLarge, fmt::format("the reply is longer than {} bytes", kMaxReplyBytes));
  }
  reply_ += content;
  return {};
}

}  // namespace kvist::loadgen
