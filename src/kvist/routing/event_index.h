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
#include "kvist/routing/adopted_prefixes.h"
#include "kvist/routing/prompts_under_way.h"

namespace kvist::routing {

/// What happened to one worker's part of the index that routing's own records must follow. Only what is true in the
/// end counts, so news of any number of batches is added up: there is no queue of it.
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

/// The one writer of the KvIndex: events, resets, and prefixes adopted without an event and taken back. Threads: its
/// owner's, but for adopted_prefixes(), and for look-ups through KvIndex::Reader. The owner is whoever reads the
/// workers' event streams: a thread of its own in a gateway of several threads, else routing itself.
class EventIndex {
 public:
  struct Options {
    std::string model;
    std::uint32_t block_size = 32;
    std::size_t workers = 0;
  };
  /// `prompts` outlives it.
  EventIndex(Options options, PromptsUnderWay& prompts);

  /// Prefetches what events of a worker will need soon: to be called before they are decoded.
  void prefetch(WorkerId worker) const { index_.prefetch(worker); }
  struct Applied {
    std::size_t refused = 0;  ///< events; KvIndex::counters() says why
    EventNews news;
  };
  Applied apply(WorkerId worker, std::span<const kv::KvEventView> events);
  /// The worker's event stream begins anew: what was learned from it is forgotten.
  EventNews reset(WorkerId worker);
  /// The id is another worker's from here on. Requires: no prompt is under way at the worker.
  void forget(WorkerId worker);
  /// Takes back that a prompt placed this parent: its answer says otherwise.
  void revoke(WorkerId worker, kv::ExternalHash parent);

  [[nodiscard]] const kv_index::KvIndex& index() const { return index_; }
  [[nodiscard]] kv_index::KvIndex::Reader make_reader() { return index_.make_reader(); }
  /// Of one worker, held now. Threads: any.
  [[nodiscard]] std::size_t adopted_prefixes(WorkerId worker) const {
    return workers_[worker.value()].adopted.load(std::memory_order_relaxed);
  }

 private:
  struct Worker {
    bool orphans = false;  // events may have parents that none told of
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
