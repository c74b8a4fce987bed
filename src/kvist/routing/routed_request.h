// A request at a worker: the one record of it that routing keeps.
#pragma once

#include <cstdint>
#include <optional>

#include "kvist/base/id.h"
#include "kvist/base/slot_table.h"
#include "kvist/base/time.h"
#include "kvist/kv/kv_event.h"
#include "kvist/routing/prompt_keys.h"

namespace kvist::routing {

/// What was expected of a request's first token, to learn from when it comes. Milliseconds and tokens. Forecaster's.
struct FirstTokenExpectation {
  TimePoint routed;
  double ttft_ms = 0;
  double queue_ms = 0;
  double step_ms = 0;
  double ahead_tokens = 0;  ///< uncached, of the worker's prompts without a first token
  double request_seconds = 0;  ///< of its worker when it came
  bool has_slot = false;
  bool open = false;  ///< nothing of the answer was seen yet
};

/// How much of the prompt was expected to be cached, by each source. Tokens. CacheKnowledge's.
struct CacheExpectation {
  std::uint64_t by_events = 0;
  std::uint64_t by_prediction = 0;
  std::uint64_t number = 0;         ///< of the routed prompt
  std::uint64_t event_batches = 0;  ///< of its worker when it came
  std::optional<std::uint64_t> cached_tokens = {};
  bool computed = false;
  std::optional<kv::ExternalHash> adopted = {};  ///< placed by this prompt, so many blocks deep
  std::uint32_t adopted_blocks = 0;
  std::uint32_t events_run = 0;
  std::uint32_t predicted_run = 0;
};

/// From the decision to the end of the attempt at that worker. Each part belongs to the class that is named; what a
/// token touches comes first.
struct RoutedRequest {
  RequestId id;
  WorkerId worker;
  bool decoding = false;  ///< the first token is here (LoadTracker)
  std::uint32_t prompt_tokens = 0;
  std::uint32_t uncached_tokens = 0;  ///< of the prompt: those the worker will have to compute
  std::uint32_t predicted_cached_tokens = 0;
  std::uint64_t output_tokens = 0;  ///< so far (LoadTracker)
  BlockKeys blocks = {};            ///< of the prompt, as the worker reads it
  FirstTokenExpectation first_token = {};
  CacheExpectation cache = {};
  std::uint64_t decision = 0;  ///< its number in the DecisionLog
};

/// The router's: a request is in it from route() to on_finished().
using RoutedRequests = SlotTable<RoutedRequest>;
using RequestHandle = RoutedRequests::Handle;

}  // namespace kvist::routing
