#include "kvist/tool_calls/marked_parser.h"

#include <utility>

#include "kvist/tool_calls/call_json.h"
#include "kvist/tool_calls/json_scanner.h"

namespace kvist::tool_calls {
namespace {

constexpr std::size_t kMostNameBytes = 256;  // with an id and marks; a longer one is content

bool is_alphanumeric(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9');
}

// What functions are called, those of MCP servers included.
bool may_be_in_name(char byte) {
  return is_alphanumeric(byte) || std::string_view("_-.:/").contains(byte);
}

// What is still missing of the marks between a name and its arguments, of which `written` is there: nothing if other
// text is there.
std::optional<std::string_view> rest_of_marks(std::string_view written) {
  constexpr std::string_view kId = MarkedCallParser::kMistralId;
  constexpr std::string_view kArguments = MarkedCallParser::kMistralArguments;
  if (written.empty()) return written;
  if (written.size() < kId.size() && kId.starts_with(written)) return kId.substr(written.size());
  if (written.starts_with(kId)) {
    written.remove_prefix(kId.size());
    while (!written.empty() && is_alphanumeric(written.front())) written.remove_prefix(1);
  }
  if (!kArguments.starts_with(written)) return std::nullopt;
  return kArguments.substr(written.size());
}

}  // namespace

void MarkedCallParser::push(std::string_view text, std::vector<AnswerPart>& out) {
  parts_.write_to(out);
  for (const char byte : text) push(byte);
}

void MarkedCallParser::push(char byte) {
  if (place_ == Place::kContent) return push_content(byte);
  if (held_.size() == kMostCallBytes) return give_up(byte);
  if (place_ == Place::kBehindJson) return push_end(byte);
  if (place_ == Place::kName) return push_name(byte);
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
  name_begin_ = 0;
  place_ = Place::kBeforeJson;
}

void MarkedCallParser::push_json(char byte) {
  if (place_ == Place::kBeforeJson) {
    if (is_json_space(byte)) {
      held_ += byte;
      return;
    }
    if (opening_ == '[' && (is_alphanumeric(byte) || byte == '_')) {
      name_begin_ = held_.size();
      name_end_ = 0;
      place_ = Place::kName;
      return push_name(byte);
    }
    if (byte != opening_) return give_up(byte);
    return begin_json(byte);
  }
  const JsonScanner::State state = json_.push(byte);
  if (state == JsonScanner::State::kBroken) return give_up(byte);
  held_ += byte;
  if (state == JsonScanner::State::kGoesOn) return;
  json_end_ = held_.size();
  place_ = Place::kBehindJson;
  if (end_.empty()) accept();
}

void MarkedCallParser::begin_json(char byte) {
  json_ = {};
  json_begin_ = held_.size();
  place_ = Place::kJson;
  push_json(byte);
}

// `name_end_` is 0 until the name has ended.
void MarkedCallParser::push_name(char byte) {
  if (name_end_ == 0 && (byte == '[' || byte == '{')) name_end_ = held_.size();
  const std::string_view behind = name_end_ == 0 ? std::string_view() : std::string_view(held_).substr(name_end_);
  const bool fits = held_.size() - name_begin_ < kMostNameBytes;
  if (fits && name_end_ == 0 && may_be_in_name(byte)) {
    held_ += byte;
    return;
  }
  if (byte == '{' && rest_of_marks(behind) == "") return begin_json(byte);
  if (fits && byte != '{' && name_end_ != 0 && rest_of_marks(std::string(behind) + byte)) {
    held_ += byte;
    return;
  }
  // A begin mark may be in what looked like another one.
  const std::string again = std::string(behind) + byte;
  held_.resize(held_.size() - behind.size());
  parts_.content(std::exchange(held_, {}));
  place_ = Place::kContent;
  for (const char each : again) push(each);
}

void MarkedCallParser::push_end(char byte) {
  if (matched_ == 0 && is_json_space(byte)) {
    held_ += byte;
    return;
  }
  if (byte != end_[matched_]) {
    // What began like an end mark may begin the mark of another call.
    const std::string_view again = end_.substr(0, std::exchange(matched_, 0));
    held_.resize(held_.size() - again.size());
    parts_.content(std::exchange(held_, {}));
    place_ = Place::kContent;
    for (const char each : again) push_content(each);
    return push_content(byte);
  }
  held_ += byte;
  if (++matched_ == end_.size()) accept();
}

void MarkedCallParser::give_up(char byte) {
  matched_ = 0;
  place_ = Place::kContent;
  parts_.content(std::exchange(held_, {}));
  push_content(byte);
}

std::vector<text::ToolCall> MarkedCallParser::calls() const {
  const std::string_view json = std::string_view(held_).substr(json_begin_, json_end_ - json_begin_);
  if (name_begin_ != 0)
    return {{.id = {}, .name = held_.substr(name_begin_, name_end_ - name_begin_), .arguments = std::string(json)}};
  if (opening_ == '[') return calls_of_json(json).value_or(std::vector<text::ToolCall>());
  std::optional<text::ToolCall> call = call_of_json(json);
  if (!call) return {};
  return {*std::move(call)};
}

void MarkedCallParser::accept() {
  std::vector<text::ToolCall> found = calls();
  const std::string held = std::exchange(held_, {});
  matched_ = 0;
  place_ = Place::kContent;
  if (found.empty() || !parts_.takes(found.size())) return parts_.content(held);
  for (text::ToolCall& call : found) parts_.call(std::move(call));
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
