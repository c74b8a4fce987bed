#include "kvist/dispatch/outcome.h"

namespace kvist::dispatch {

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::kCompleted:
      return "completed";
    case Outcome::kRejected:
      return "rejected";
    case Outcome::kNoWorker:
      return "no_worker";
    case Outcome::kRefused:
      return "refused";
    case Outcome::kBackPressure:
      return "back_pressure";
    case Outcome::kWorkerError:
      return "worker_error";
    case Outcome::kUpstreamFailed:
      return "upstream_failed";
    case Outcome::kTimedOut:
      return "timed_out";
    case Outcome::kBrokenStream:
      return "broken_stream";
    case Outcome::kClientGone:
      return "client_gone";
    case Outcome::kExhausted:
      return "exhausted";
  }
  return "worker_error";
}

}  // namespace kvist::dispatch
