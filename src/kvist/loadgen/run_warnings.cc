#include "kvist/loadgen/run_warnings.h"

#include <fmt/format.h>

#include "kvist/telemetry/log.h"

namespace kvist::loadgen {
namespace {

constexpr const char* kLoadLog = "loadgen";

}  // namespace

void RunWarnings::begin(const workload::RecorderTotals& before) {
  *this = {};
  failed_before_ = before.turns_failed;
  missing_usage_before_ = before.missing_usage;
}

void RunWarnings::on_failed(const workload::TurnSample& sample, const workload::RecorderTotals& totals) const {
  const std::string line =
      fmt::format("turn {} of conversation {} failed: {}", sample.turn, sample.conversation.value(), sample.error);
  if (totals.turns_failed == failed_before_) {
    telemetry::log_warning(kLoadLog, line + " (further failures of this run are counted, and logged as debug)");
  } else {
    telemetry::log_debug(kLoadLog, line);
  }
}

void RunWarnings::on_finished(const workload::RecorderTotals& totals, bool counts_tokens) {
  if (missing_usage_warned_ || totals.missing_usage == missing_usage_before_) return;
  missing_usage_warned_ = true;
  telemetry::log_warning(kLoadLog,
                         fmt::format("an answer has no usage: its tokens count by {}, its prompt and cached tokens are "
                                     "unknown (further ones are counted)",
                                     counts_tokens ? "the tokenizer" : "chunks"));
}

}  // namespace kvist::loadgen
