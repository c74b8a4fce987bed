#include "kvist/tool_calls/llama3_json_parser.h"

#include <utility>

#include "kvist/tool_calls/call_json.h"

namespace kvist::tool_calls {

void Llama3JsonParser::push(std::string_view text, std::vector<AnswerPart>& out) {
  parts_.write_to(out);
  for (const char byte : text) push(byte);
}

void Llama3JsonParser::push(char byte) {
  if (place_ == Place::kContent) return parts_.content(byte);
  held_ += byte;
  if (held_.size() > kMostCallBytes) return give_up();
  if (place_ == Place::kJson) return push_json(byte);
  push_before(byte);
}

void Llama3JsonParser::push_before(char byte) {
  if (place_ == Place::kBegin && matched_ < kMark.size() && byte == kMark[matched_]) {
    ++matched_;
    return;
  }
  const bool within_mark = matched_ > 0 && matched_ < kMark.size();
  if (within_mark) return give_up();
  const bool separates =
      byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t' || (byte == ';' && place_ == Place::kBehindCall);
  if (separates) return;
  json_ = {};
  json_begin_ = held_.size() - 1;
  place_ = Place::kJson;
  if (byte != '{') return give_up();
  push_json(byte);
}

void Llama3JsonParser::push_json(char byte) {
  const JsonScanner::State state = json_.push(byte);
  if (state == JsonScanner::State::kGoesOn) return;
  if (state == JsonScanner::State::kBroken) return give_up();
  std::optional<text::ToolCall> call = call_of_json(std::string_view(held_).substr(json_begin_));
  if (!call || !parts_.takes(1)) return give_up();
  parts_.call(*std::move(call));
  held_.clear();
  place_ = Place::kBehindCall;
}

void Llama3JsonParser::give_up() {
  place_ = Place::kContent;
  parts_.content(std::exchange(held_, {}));
}

void Llama3JsonParser::finish(std::vector<AnswerPart>& out) {
  parts_.write_to(out);
  // A separator at the end without a call after it is dropped.
  if (place_ != Place::kBehindCall) give_up();
  parts_.finish();
}

}  // namespace kvist::tool_calls
