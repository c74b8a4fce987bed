#include "kvist/loadgen/refusal_watch.h"

#include <fmt/format.h>

namespace kvist::loadgen {
namespace {

constexpr int kUnauthorized = 401;
constexpr int kForbidden = 403;
constexpr int kNotFound = 404;

}  // namespace

bool RefusalWatch::on_finished(const workload::TurnSample& sample, int status) {
  if (!looks_ || sample.outcome == workload::TurnOutcome::kAbandoned) return false;
  const bool is_unknown = status == kNotFound;
  const bool is_refused = is_unknown || status == kUnauthorized || status == kForbidden;
  looks_ = is_refused && ++refused_ < kAnswers;
  if (!is_refused || looks_) return false;
  verdict_ = fmt::format("the first {} answers all refuse the load, so there is nothing to measure: {}; check {}",
                         kAnswers, sample.error,
                         is_unknown ? "the model's name (the server's /v1/models lists them) and the URL's path"
                                    : "the API key and what it may use");
  return true;
}

}  // namespace kvist::loadgen
