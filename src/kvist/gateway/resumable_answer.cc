#include "kvist/gateway/resumable_answer.h"

#include <string>
#include <utility>

namespace kvist::gateway {

std::string_view to_string(MigrationRefusal refusal) {
  switch (refusal) {
    case MigrationRefusal::kOff:
      return "off";
    case MigrationRefusal::kEngine:
      return "engine";
    case MigrationRefusal::kSeveralChoices:
      return "several_choices";
    case MigrationRefusal::kToolCalls:
      return "tool_calls";
    case MigrationRefusal::kTooLong:
      return "too_long";
    case MigrationRefusal::kLargeRequest:
      return "large_request";
    case MigrationRefusal::kTooOften:
      return "too_often";
    case MigrationRefusal::kNoWorker:
      return "no_worker";
  }
  return "engine";
}

ResumableAnswer::ResumableAnswer(const spec::MigrationSpec& spec, bool asks, std::size_t request_bytes)
    : spec_(&spec),
      asks_(asks && spec.enabled),
      is_large_(request_bytes > spec.max_request_bytes),
      log_(spec.max_tokens) {}

bool ResumableAnswer::on_head(std::optional<std::string_view> promise) {
  if (!asks_ || !promise) return false;
  const std::optional<std::int64_t> created = openai::read_resumable(*promise);
  if (!created) {
    if (*promise == openai::kSeveralChoices) why_not_ = MigrationRefusal::kSeveralChoices;
    if (*promise == openai::kToolCalls) why_not_ = MigrationRefusal::kToolCalls;
    return false;
  }
  created_ = created;
  return true;
}

std::optional<MigrationRefusal> ResumableAnswer::refusal() const {
  if (!spec_->enabled) return MigrationRefusal::kOff;
  if (!created_) return why_not_;
  if (log_.is_too_long()) return MigrationRefusal::kTooLong;
  // Without tokens it is not known what the client has.
  if (!log_.is_whole() || log_.tokens().empty()) return MigrationRefusal::kEngine;
  if (is_large_) return MigrationRefusal::kLargeRequest;
  if (moves_ >= spec_->max) return MigrationRefusal::kTooOften;
  return std::nullopt;
}

net::HttpRequest ResumableAnswer::continuation(const net::HttpRequest& request) const {
  net::HttpRequest rest = request;
  rest.body = openai::with_resumption(request.body, log_.tokens(), *created_);
  rest.headers.set(std::string(openai::kResumableHeader), std::to_string(log_.tokens().size()));
  return rest;
}

}  // namespace kvist::gateway
