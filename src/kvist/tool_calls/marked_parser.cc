#include "kvist/tool_calls/marked_parser.h"

#include <utility>

#include "kvist/tool_calls/call_json.h"
#include "kvist/tool_calls/json_scanner.h"

namespace kvist::tool_calls {

void MarkedCallParser::push(std::string_view text, std::vector<AnswerPart>& out) {
  parts_.write_to(out);
  for (const char byte : text) push(byte);
}

void MarkedCallParser::push(char byte) {
  if (place_ == Place::kContent) return push_content(byte);
  if (held_.size() == kMostCallBytes) return give_up(byte);
  if (place_ == Place::kBehindJson) return push_end(byte);
  push_json(byte);
}

void MarkedCallParser::push_content(char byte) {
  if (byte != begin_[matched_]) {
    parts_.content(begin_.substr(0, matched_));
    matched_ = byte == begin_.front() ? 1 : 0;
    if (matched_ == 0) parts_.content(byte);
    return;
  }
  if (++matched_ < begin_.size()) return;
  matched_ = 0;
  held_ = begin_;
  place_ = Place::kBeforeJson;
}

void MarkedCallParser::push_json(char byte) {
  if (place_ == Place::kBeforeJson) {
    if (is_json_space(byte)) {
      held_ += byte;
      return;
    }
    if (byte != opening_) return give_up(byte);
    json_ = {};
    json_begin_ = held_.size();
    place_ = Place::kJson;
  }
  const JsonScanner::State state = json_.push(byte);
  if (state == JsonScanner::State::kBroken) return give_up(byte);
  held_ += byte;
  if (state == JsonScanner::State::kGoesOn) return;
  json_end_ = held_.size();
  place_ = Place::kBehindJson;
  if (end_.empty()) accept();
}

void MarkedCallParser::push_end(char byte) {
  if (matched_ == 0 && is_json_space(byte)) {
    held_ += byte;
    return;
  }
  if (byte != end_[matched_]) return give_up(byte);
  held_ += byte;
  if (++matched_ == end_.size()) accept();
}

void MarkedCallParser::give_up(char byte) {
  matched_ = 0;
  place_ = Place::kContent;
  parts_.content(std::exchange(held_, {}));
  push_content(byte);
}

void MarkedCallParser::accept() {
  const std::string held = std::exchange(held_, {});
  matched_ = 0;
  place_ = Place::kContent;
  const std::string_view json = std::string_view(held).substr(json_begin_, json_end_ - json_begin_);
  if (opening_ == '[') {
    std::optional<std::vector<text::ToolCall>> calls = calls_of_json(json);
    if (!calls || !parts_.takes(calls->size())) return parts_.content(held);
    for (text::ToolCall& call : *calls) parts_.call(std::move(call));
    return;
  }
  std::optional<text::ToolCall> call = call_of_json(json);
  if (!call || !parts_.takes(1)) return parts_.content(held);
  parts_.call(*std::move(call));
}

void MarkedCallParser::finish(std::vector<AnswerPart>& out) {
  parts_.write_to(out);
  if (place_ == Place::kBehindJson) {
    accept();
  } else if (place_ == Place::kContent) {
    parts_.content(begin_.substr(0, matched_));
  } else {
    parts_.content(held_);
  }
  parts_.finish();
}

}  // namespace kvist::tool_calls
