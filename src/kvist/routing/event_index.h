// What the workers' KV events told: the index, with what prompts under way add to it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/kv/kv_event_view.h"
#include "kvist/kv_index/kv_index.h"
#include "kvist/kv_index/kv_index_transfer.h"
#include "kvist/routing/adopted_prefixes.h"
#include "kvist/routing/prompts_under_way.h"

namespace kvist::routing {

/// What happened to one worker's part of the index, as far as routing's own records must follow it. Only the final
/// state counts, so the news of several batches is added up and needs no queue.
struct EventNews {
  std::uint64_t batches = 0;      ///< of events, applied
  bool begun_anew = false;        ///< the index was emptied: what it let expect before is void
  bool cache_emptied = false;     ///< the worker holds nothing that was routed there before,
  bool keeps_uncomputed = false;  ///< except for prompts that it has still to compute

  [[nodiscard]] bool empty() const { return batches == 0 && !begun_anew && !cache_emptied; }
  void add(const EventNews& later) {
    batches += later.batches;
    begun_anew = begun_anew || later.begun_anew;
    if (later.cache_emptied) keeps_uncomputed = later.keeps_uncomputed;
    cache_emptied = cache_emptied || later.cache_emptied;
  }
};

/// The one writer of the KvIndex: it applies events and resets, adopts prefixes without an event and takes them back.
/// Threads: its owner's, except for adopted_prefixes() and for look-ups through KvIndex::Reader. The owner is the
/// thread that applies the workers' events: one of its own in a gateway of several threads, otherwise routing's.
class EventIndex {
 public:
  struct Options {
    std::string model;
    std::uint32_t block_size = 32;
    std::size_t workers = 0;
  };
  /// Requires: `prompts` outlives this object.
  EventIndex(Options options, PromptsUnderWay& prompts);

  /// Prefetches what events of a worker will need soon. To be called before they are decoded.
  void prefetch(WorkerId worker) const { index_.prefetch(worker); }
  struct Applied {
    std::size_t refused = 0;  ///< events; KvIndex::counters() says why
    EventNews news;
  };
  Applied apply(WorkerId worker, std::span<const kv::KvEventView> events);
  /// The worker's event stream begins anew. Forgets what was learned from it.
  EventNews reset(WorkerId worker);
  /// The id belongs to another worker from here on. Requires: no prompt is under way at the worker.
  void forget(WorkerId worker);
  /// The worker's part for another gateway, as the events told it.
  [[nodiscard]] kv_index::KvIndex::Export export_part(WorkerId worker) const { return {index_, worker}; }
  /// The worker's part comes from another gateway. Requires: reset() was called, and nothing is applied until
  /// on_imported().
  [[nodiscard]] kv_index::KvIndex::Import import_part(WorkerId worker) { return {index_, worker}; }
  /// The whole part is in the index: every event from here on has a known parent.
  EventNews on_imported(WorkerId worker);
  /// Takes the place of this parent back, because the answer to the prompt that gave the place contradicts it.
  void revoke(WorkerId worker, kv::ExternalHash parent);

  [[nodiscard]] const kv_index::KvIndex& index() const { return index_; }
  [[nodiscard]] kv_index::KvIndex::Reader make_reader() { return index_.make_reader(); }
  /// The number of adopted prefixes that one worker holds now. Threads: any.
  [[nodiscard]] std::size_t adopted_prefixes(WorkerId worker) const {
    return workers_[worker.value()].adopted.load(std::memory_order_relaxed);
  }

 private:
  struct Worker {
    bool orphans = false;  // events may have parents that no event named
    std::atomic<std::size_t> adopted = 0;
  };
  [[nodiscard]] std::size_t apply_one_by_one(WorkerId id, std::span<const kv::KvEventView> events);
  void place(WorkerId id, const kv::KvEventView& event);
  void count_adopted(WorkerId id);

  PromptsUnderWay* prompts_;
  kv_index::KvIndex index_;
  AdoptedPrefixes adopted_;
  std::vector<Worker> workers_;  // by WorkerId; never grows
};

}  // namespace kvist::routing
