// What the access log and traces tell of one request: nothing of its texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/telemetry/trace_context.h"

namespace kvist::gateway {

/// One attempt at a worker.
struct AttemptReport {
  std::string worker;
  TimePoint began;
  TimePoint ended = {};
  int status = 0;                 ///< of the worker's answer; 0: none came
  std::string_view failure = {};  ///< the word of the reason, as in the metrics; empty: it did not fail
  telemetry::SpanId span = {};
};

/// A request from its arrival to its end. Instants stay zero where the thing did not happen.
struct RequestReport {
  std::string request_id = {};
  std::string method = {};
  std::string path = {};   ///< without the query, which may hold secrets
  std::string key = {};    ///< the name of the client's API key; empty: none was asked for
  std::string model = {};  ///< empty: the gateway did not read the request
  bool streams = false;
  TimePoint arrived = {};
  TimePoint asked = {};    ///< for a worker, when its prompt was read
  TimePoint decided = {};  ///< the first worker was known
  TimePoint first_token = {};
  TimePoint ended = {};
  int status = 0;                 ///< that the client got; 0: it left before
  std::string_view outcome = {};  ///< dispatch::to_string(Outcome)
  std::optional<std::uint32_t> prompt_tokens = {};
  std::optional<std::uint32_t> predicted_cached_tokens = {};  ///< at the last worker
  std::optional<std::uint32_t> cached_tokens = {};            ///< as that worker reported
  std::optional<std::uint64_t> output_tokens = {};
  std::vector<AttemptReport> attempts = {};
  std::optional<telemetry::TraceContext> trace = {};  ///< its own span; nothing: it is not traced
  telemetry::SpanId parent = {};                      ///< the client's span; zero: none
  telemetry::SpanId routing = {};                     ///< the span of the decision
};

}  // namespace kvist::gateway
