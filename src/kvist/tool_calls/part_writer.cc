#include "kvist/tool_calls/part_writer.h"

#include <utility>

#include "kvist/base/check.h"

namespace kvist::tool_calls {
namespace {

constexpr std::size_t kMostSpace = 1024;  // more white space is content, even if a call follows

}  // namespace

void PartWriter::append(std::string_view text) {
  if (text.empty()) return;
  if (out_->empty() || out_->back().call) out_->emplace_back();
  out_->back().content += text;
}

void PartWriter::content(char byte) {
  const bool is_space = byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
  if (is_space && after_call_) return;
  if (is_space && space_.size() < kMostSpace) {
    space_ += byte;
    return;
  }
  after_call_ = false;
  append(std::exchange(space_, {}));
  append({&byte, 1});
}

void PartWriter::call(text::ToolCall call) {
  KVIST_CHECK(takes(1), "a call too many");
  ++calls_;
  space_.clear();
  after_call_ = true;
  out_->push_back({.content = {}, .call = std::move(call)});
}

void PartWriter::finish() {
  append(std::exchange(space_, {}));
}

}  // namespace kvist::tool_calls
