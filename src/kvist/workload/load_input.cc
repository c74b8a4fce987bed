#include "kvist/workload/load_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kvist/workload/load_driver.h"
#include "kvist/workload/recorded_source.h"
#include "kvist/workload/trace_source.h"

namespace kvist::workload {
namespace {

// 73 years, so that the last instant is within the range of TimePoint.
constexpr double kMaxSeconds = 2.3e9;

/// The last instant of a replay, in seconds since the beginning of the record.
double farthest_seconds(const LoadInput& input) {
  if (input.trace) {
    const auto [first, last] = std::ranges::minmax(input.trace->requests, {}, &TraceRequest::at);
    return to_seconds(last.at - first.at);
  }
  double farthest = 0;
  for (const RecordedTurn& turn : input.recorded->turns) farthest = std::max(farthest, std::abs(to_seconds(turn.sent)));
  return farthest;
}

std::uint32_t tokens_per_hash(const spec::TraceSpec& spec, const Trace& trace) {
  return spec.tokens_per_hash != 0 ? spec.tokens_per_hash : trace.tokens_per_hash.value_or(kTokensPerHash);
}

/// A setting of a trace that has no effect is an error, because it shows a misunderstanding.
Result<void> refuse_idle_settings(const spec::TraceSpec& trace, const LoadInput& input) {
  const auto refuse = [&](std::string_view key, std::string_view why) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("workload: trace {} of {}: {}", key, trace.file, why));
  };
  if (trace.loop == spec::TraceLoop::kClosed && trace.speed != 1) {
    return refuse("speed", "is for `loop: open`; in a closed loop a request begins as soon as a place is free");
  }
  if (input.recorded && trace.tokens_per_hash != 0)
    return refuse("tokens_per_hash", "is for a trace of ids; a run has its texts");
  if (input.recorded && trace.sessions != spec::TraceSessions::kFollow)
    return refuse("sessions", "is for a trace of requests; a run has conversations");
  return {};
}

}  // namespace

Result<void> check_load(const spec::WorkloadSpec& spec, const LoadInput& input) {
  const spec::TraceSpec& trace = spec.trace;
  if (trace.file.empty()) {
    if (input.mix) KVIST_TRY_VOID(check_mix(*input.mix));
    return check_workload(spec);
  }
  if (!input.trace && !input.recorded) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("workload: trace {} has not been loaded", trace.file));
  }
  if (input.trace && input.trace->requests.empty()) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("workload: trace {} holds no request", trace.file));
  }
  KVIST_TRY_VOID(refuse_idle_settings(trace, input));
  if (!std::isfinite(trace.speed) || trace.speed <= 0) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("workload: trace speed is {}; want > 0", trace.speed));
  }
  if (const double seconds = farthest_seconds(input) / trace.speed; seconds > kMaxSeconds) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("workload: trace {} would take {:g} s at speed {:g}; want at most {:g} s", trace.file,
                            seconds, trace.speed, kMaxSeconds));
  }
  if (input.trace && input.trace->tokens_per_hash && trace.tokens_per_hash != 0 &&
      trace.tokens_per_hash != *input.trace->tokens_per_hash) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("workload: trace tokens_per_hash is {}; an id of {} stands for {}: leave it out",
                            trace.tokens_per_hash, trace.file, *input.trace->tokens_per_hash));
  }
  if (spec.request_timeout <= Duration::zero()) {
    return fail(ErrorCode::kInvalidArgument, "workload: request_timeout must be above 0");
  }
  return input.recorded ? check_workload(input.recorded->workload) : Result<void>{};
}

Result<std::shared_ptr<const Mix>> prepare_texts(const spec::WorkloadSpec& spec, const LoadInput& input,
                                                 std::uint64_t seed) {
  KVIST_TRY_VOID(check_load(spec, input));
  if (!spec.trace.file.empty()) return nullptr;
  return make_texts(spec, seed, input.scripts, input.mix, input.tokens);
}

Result<std::unique_ptr<TurnSource>> make_turn_source(const spec::WorkloadSpec& spec, const LoadInput& input,
                                                     std::uint32_t concurrency, std::uint64_t seed, TimePoint start) {
  KVIST_TRY(auto texts, prepare_texts(spec, input, seed));
  return make_turn_source(spec, input, std::move(texts), concurrency, seed, start);
}

Result<std::unique_ptr<TurnSource>> make_turn_source(const spec::WorkloadSpec& spec, const LoadInput& input,
                                                     std::shared_ptr<const Mix> texts, std::uint32_t concurrency,
                                                     std::uint64_t seed, TimePoint start, const Shard& shard) {
  KVIST_TRY_VOID(check_load(spec, input));
  if (concurrency == 0) return fail(ErrorCode::kInvalidArgument, "concurrency is 0; want at least 1");
  if (spec.trace.file.empty()) {
    auto driver =
        std::make_unique<LoadDriver>(spec, concurrency, seed, start, std::move(texts), input.think_time, shard);
    if (!input.texts.change_anything()) return driver;
    return std::make_unique<ArmTextsSource>(std::move(driver), input.texts, seed);
  }
  if (input.trace) {
    const TraceSource::Options options{.loop = spec.trace.loop,
                                       .sessions = spec.trace.sessions,
                                       .speed = spec.trace.speed,
                                       .concurrency = concurrency,
                                       .tokens_per_hash = tokens_per_hash(spec.trace, *input.trace),
                                       .seed = seed,
                                       .shard = shard};
    return std::make_unique<TraceSource>(input.trace, options, start);
  }
  if (shard.count > 1) return fail(ErrorCode::kUnsupported, "a recorded level cannot be divided");
  const RecordedRunSource::Options options{
      .loop = spec.trace.loop, .speed = spec.trace.speed, .concurrency = concurrency};
  return std::make_unique<RecordedRunSource>(input.recorded, options, start);
}

std::optional<std::string> refused_starts(const spec::WorkloadSpec& spec, std::uint64_t refused,
                                          std::uint64_t sent_late, std::uint64_t started) {
  if (!spec.trace.file.empty() || !spec.arrivals.is_open()) return std::nullopt;
  if (sent_late > 0) {
    return fmt::format(
        "{} of {} arrivals waited for a place and were sent late: {} conversations were alive "
        "(max_conversations)",
        sent_late, started, spec.arrivals.max_conversations);
  }
  if (refused == 0) return std::nullopt;
  return fmt::format("{} of {} arrivals were refused: {} conversations were alive (max_conversations)", refused,
                     refused + started, spec.arrivals.max_conversations);
}

}  // namespace kvist::workload
