#include "kvist/gateway/answer_meter.h"

#include <utility>

#include "kvist/gateway/key_account.h"
#include "kvist/net/media_type.h"
#include "kvist/openai/codec.h"

namespace kvist::gateway {
namespace {

// The answers of chats and completions have their choices behind a few short fields. Within JSON's strings quotes are
// escaped, so this is a key, or a text of this one word.
bool mentions_choices(std::string_view json) {
  return json.contains(R"("choices")");
}

}  // namespace

AnswerMeter::AnswerMeter(const net::Headers& headers)
    : form_(net::has_media_type(headers, "text/event-stream")  ? Form::kEvents
            : net::has_media_type(headers, "application/json") ? Form::kJson
                                                               : Form::kOther) {
  events_.measure_text();
}

void AnswerMeter::feed(std::string_view data) {
  if (form_ == Form::kOther) return;
  if (form_ == Form::kEvents && !failed_) {
    forwarded_.clear();
    if (events_.feed(data, forwarded_)) return;  // what is not in the form of chats has no tokens
    failed_ = true;
    unread_ += kMostReadBytes;
  }
  unread_ += data.size();
  if (form_ != Form::kJson || too_long_) return;
  json_ += data;
  if (json_.size() <= kMostReadBytes) return;
  too_long_ = true;
  has_choices_ = mentions_choices(json_);
  json_ = {};
}

std::optional<openai::Usage> AnswerMeter::usage() const {
  if (form_ == Form::kEvents) return events_.state().usage;
  if (form_ == Form::kOther || too_long_) return std::nullopt;
  const auto answer = openai::parse_chunk(json_);
  return answer ? answer->usage : std::nullopt;
}

std::uint64_t AnswerMeter::tokens() const {
  if (form_ == Form::kEvents) return events_.state().least_tokens() + unread_ / kBytesPerToken;
  const bool is_chat = too_long_ ? has_choices_ : mentions_choices(json_);
  return is_chat ? unread_ / kBytesPerToken : 0;
}

}  // namespace kvist::gateway
