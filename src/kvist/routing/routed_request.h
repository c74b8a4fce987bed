// A request at a worker: the only record of it that routing keeps.
#pragma once

#include <cstdint>
#include <optional>

#include "kvist/base/id.h"
#include "kvist/base/slot_table.h"
#include "kvist/base/time.h"
#include "kvist/routing/prefill_work.h"
#include "kvist/routing/prompt_keys.h"
#include "kvist/routing/prompts_under_way.h"

namespace kvist::routing {

/// What was expected of a request's first token. Forecaster learns from it when the token comes. Milliseconds and
/// tokens.
struct FirstTokenExpectation {
  TimePoint routed;
  double ttft_ms = 0;
  double queue_ms = 0;
  double wait_ms = 0;  ///< for a slot and behind other prompts
  double step_ms = 0;
  double ahead_tokens = 0;      ///< uncached tokens of the prompts that were queued at the worker before this one
  double request_seconds = 0;   ///< of its worker when it was routed, as is the next
  PrefillSum routed_work = {};  ///< all prompts that the worker got before, as is the next
  PrefillSum unseen_work = {};  ///< of these, those whose first tokens this gateway does not see
  bool has_slot = false;
  bool behind_peers = false;  ///< another gateway's prompt was before it
  bool open = false;          ///< nothing of the answer has arrived yet
  bool in_order = true;       ///< neither overtaken nor overtaking when its first token came (PrefillQueue)
};

/// How many tokens of the prompt each source let expect in the cache. Used by CacheKnowledge.
struct CacheExpectation {
  std::uint64_t by_events = 0;
  std::uint64_t by_prediction = 0;
  std::uint64_t number = 0;         ///< of the routed prompt
  std::uint64_t event_batches = 0;  ///< of its worker when it was routed
  std::optional<std::uint64_t> cached_tokens = {};
  bool computed = false;
  PromptsUnderWay::Handle under_way = {};
  std::uint32_t events_run = 0;
  std::uint32_t predicted_run = 0;
};

/// Exists from the decision to the end of the attempt at that worker. Each part belongs to the class that is named. The
/// fields that every token touches come first, for the sake of the processor's cache.
struct RoutedRequest {
  RequestId id;
  WorkerId worker;
  bool decoding = false;   ///< its first token has arrived, or must have arrived (LoadTracker)
  bool assumed = false;    ///< that is only assumed, because the answer is not streamed (LoadTracker)
  bool of_peer = false;    ///< another gateway gave it to the worker: nothing is learned from its times
  bool stands_in = false;  ///< as in PeerRequest, as is `late`
  std::uint32_t prompt_tokens = 0;
  std::uint32_t uncached_tokens = 0;  ///< prompt tokens that the worker has to compute
  std::uint32_t predicted_cached_tokens = 0;
  std::uint32_t own_blocks = 0;     ///< of its prompt, behind what any worker had cached when it was routed
  std::uint32_t new_blocks = 0;     ///< of its prompt, that no other request used on the worker when it was routed
  bool streams = false;             ///< its tokens are reported one by one
  std::uint32_t choices = 1;        ///< answers that are generated for its prompt
  std::uint64_t output_tokens = 0;  ///< so far (LoadTracker); in a run, up to the step below (DecodeRuns)
  std::uint64_t run_steps = 0;
  bool in_run = false;
  BlockKeys blocks = {};  ///< of the prompt, in the worker's tokenization
  FirstTokenExpectation first_token = {};
  std::optional<TimePoint> unseen_until = {};  ///< its place in UnseenFirstTokens
  CacheExpectation cache = {};
  std::uint64_t decision = 0;  ///< its number in the DecisionLog
  std::uint64_t reuse = 0;     ///< its number in the ReusedPrefixes; 0: none
  std::uint64_t told = 0;      ///< its number towards other gateways (LoadObserver); 0: none
  Duration late{};

  /// Tokens of one of its choices, which grow at the same time.
  [[nodiscard]] std::uint64_t answer_tokens() const { return choices == 1 ? output_tokens : output_tokens / choices; }
  /// Whether something of its answer has been seen, which shows that its worker is alive.
  [[nodiscard]] bool has_begun() const { return decoding && !assumed; }
};

/// The router's table. A request is in it from route() to on_finished().
using RoutedRequests = SlotTable<RoutedRequest>;
using RequestHandle = RoutedRequests::Handle;

}  // namespace kvist::routing
