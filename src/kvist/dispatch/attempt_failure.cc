#include "kvist/dispatch/attempt_failure.h"

namespace kvist::dispatch {

std::string_view to_string(AttemptFailure failure) {
  switch (failure) {
    case AttemptFailure::kTransport:
      return "transport";
    case AttemptFailure::kTimedOut:
      return "timed_out";
    case AttemptFailure::kBackPressure:
      return "back_pressure";
    case AttemptFailure::kServerError:
      return "server_error";
    case AttemptFailure::kStalled:
      return "stalled";
    case AttemptFailure::kSilent:
      return "silent";
    case AttemptFailure::kGarbage:
      return "garbage";
    case AttemptFailure::kUnauthorized:
      return "unauthorized";
    case AttemptFailure::kWrongModel:
      return "wrong_model";
    case AttemptFailure::kNotResumable:
      return "not_resumable";
    case AttemptFailure::kNoAdapter:
      return "no_adapter";
    case AttemptFailure::kRemoved:
      return "removed";
    case AttemptFailure::kTooLarge:
      return "too_large";
  }
  return "server_error";
}

std::optional<AttemptFailure> failure_of_status(int status, RequestScope scope) {
  // 529 is what NVIDIA Dynamo answers when it is overloaded.
  if (status == 429 || status == 503 || status == 529) return AttemptFailure::kBackPressure;
  // 501 and 505 say what the server cannot do at all, which is the same on all workers.
  if (status >= 500 && status != 501 && status != 505) return AttemptFailure::kServerError;
  if (scope == RequestScope::kOther) return std::nullopt;
  if (status == 401 || status == 403) return AttemptFailure::kUnauthorized;
  // A model that the gateway does not serve is unknown to its workers too.
  if (status == 404 && scope == RequestScope::kOwnModel) return AttemptFailure::kWrongModel;
  if (status == 404 && scope == RequestScope::kAdapter) return AttemptFailure::kNoAdapter;
  if (status >= 300 && status < 400) return AttemptFailure::kGarbage;
  return std::nullopt;
}

}  // namespace kvist::dispatch
