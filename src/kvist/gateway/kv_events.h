// The KV events of all workers: on a thread of their own, or on that of routing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/gateway/kv_event_feed.h"
#include "kvist/gateway/kv_news_board.h"
#include "kvist/kv_index/kv_index.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/zmq_receiver.h"
#include "kvist/routing/router.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// All feeds and the index at one moment, for metrics and status.
struct KvEventsReport {
  struct Worker {
    std::optional<KvFeedReport> feed;  ///< nothing where the worker publishes no events
    std::size_t blocks = 0;            ///< in the index, in device memory
    std::array<std::size_t, kv_index::kLowerTiers> lower_tier_blocks{};  ///< in the other media, as kv::Medium has them
    kv_index::KvIndexCounters index = {};
  };
  std::vector<Worker> workers;  ///< by WorkerId
  std::size_t index_bytes = 0;
  std::size_t index_keys = 0;
  std::uint64_t index_evictions = 0;
};

/// Owns the feeds, and is the only writer of the router's EventIndex. If it has a thread of its own, routing looks
/// prompts up through a wait-free reader and learns in batches what happened (KvNewsBoard), so a storm of events delays
/// no decision. Otherwise everything is on routing's loop, and routing is told at once.
///
/// Threads: routing's loop (`home`), unless a function says otherwise.
class KvEvents {
 public:
  /// For Router::Options::make_gate; null unless the events have a thread of their own.
  [[nodiscard]] static routing::PromptsUnderWay::MakeGate make_gate(bool own_thread);
  /// `own_thread` as for make_gate(). Requires: home and router outlive it.
  KvEvents(net::EventLoop& home, routing::Router& router, std::size_t workers, bool own_thread);
  ~KvEvents();
  KvEvents(const KvEvents&) = delete;
  KvEvents& operator=(const KvEvents&) = delete;

  /// The handler is called whenever the result of exact() changes for a worker.
  void on_exact_changed(std::function<void(WorkerId)> handler) { on_exact_changed_ = std::move(handler); }
  /// Subscribes to those workers, by WorkerId, that publish events. Requires: it is called once, before add() and
  /// forget().
  [[nodiscard]] Result<void> connect(const std::vector<spec::UpstreamSpec>& workers);
  /// A worker has taken a vacant place. If its events cannot be subscribed to, the log says why.
  void add(WorkerId worker, const spec::UpstreamSpec& upstream);
  /// Ends the worker's subscription and forgets its part of the index. Then calls `then`, now or later. Ensures:
  /// nothing of the worker is on its way any more. Requires: no prompt is under way there.
  void forget(WorkerId worker, std::function<void()> then);
  /// Whether the index holds exactly what the worker published, as far as routing was told.
  [[nodiscard]] bool exact(WorkerId worker) const { return exact_[worker.value()]; }
  /// The worker's process is a new one.
  void on_worker_restarted(WorkerId worker);
  /// The worker says how many batches it has published.
  void on_published(WorkerId worker, std::uint64_t batches);

  // With other gateways. `then` is called now or soon on routing's loop, unless this object ends before.
  /// The handler is called whenever the result of lost() changes for a worker.
  void on_lost_changed(std::function<void(WorkerId)> handler) { on_lost_changed_ = std::move(handler); }
  /// Whether events of the worker were lost that its publisher does not have any more.
  [[nodiscard]] bool lost(WorkerId worker) const { return lost_[worker.value()]; }
  void export_part(WorkerId worker, KvEventFeed::Exported then);
  void import_part(WorkerId worker, std::shared_ptr<const peering::WorkerPart> part,
                   std::function<void(const std::string& problem)> then);
  void keep_frames(WorkerId worker, bool keep);

  /// Calls `then` now or soon. Ensures: routing was told before of everything that the report shows.
  void report(std::function<void(const KvEventsReport&)> then);

 private:
  class OwnThread;

  // On the feeds' loop.
  [[nodiscard]] KvEventsReport make_report() const;
  [[nodiscard]] Result<void> subscribe(WorkerId worker, const spec::UpstreamSpec& upstream);
  void end(WorkerId worker);

  void take(WorkerId worker, const KvFeedNews& news);
  /// Has the feeds' thread call `work` with the worker's feed, if there is one.
  void on_feed(WorkerId worker, std::function<void(KvEventFeed&)> work);
  /// Has routing's thread call `work`, if this object is still there.
  void at_home(std::function<void()> work);
  /// Calls `work` on the feeds' loop.
  void on_feeds(std::function<void()> work);

  net::EventLoop* home_;
  routing::Router* router_;
  std::function<void(WorkerId)> on_exact_changed_ = [](WorkerId) {};
  std::function<void(WorkerId)> on_lost_changed_ = [](WorkerId) {};
  std::vector<bool> exact_;  // by WorkerId, as is the next
  std::vector<bool> lost_;
  KvEventFeed::Shared shared_;
  std::unique_ptr<OwnThread> thread_;  // null: the feeds are on home
  // The feeds' loop has these, once it runs.
  std::shared_ptr<net::ZmqReceiver> receiver_;       // null before the first subscription
  std::vector<std::shared_ptr<KvEventFeed>> feeds_;  // by WorkerId
};

}  // namespace kvist::gateway
