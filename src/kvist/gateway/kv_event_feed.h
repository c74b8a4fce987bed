// One worker's KV events: from its publisher into the router's index.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/gateway/kv_event_inbox.h"
#include "kvist/gateway/warning_gate.h"
#include "kvist/kv/event_sequencer.h"
#include "kvist/kv/field_counts.h"
#include "kvist/kv/kv_event_decoder.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/zmq_receiver.h"
#include "kvist/routing/router.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// Cumulative counts beside those of the sequencer and the index.
struct KvFeedCounters {
  std::uint64_t undecodable_batches = 0;  ///< lost whole: the envelope is broken
  std::uint64_t skipped_events = 0;       ///< of batches that could be read otherwise
  std::uint64_t malformed_messages = 0;   ///< frames that are no message of a publisher
  kv::FieldCounts unknown_fields = {};    ///< of events that were used
};

/// Owns the subscription. The receiver's thread only puts frames into the inbox and wakes the loop; sequencing,
/// decoding and the index live on the loop's thread. (Decoding follows sequencing, which may drop or reorder frames:
/// decoding before would be work for nothing, and needs the order of resets anyway.) What cannot be used is loud:
/// counted, and logged at a bounded rate.
class KvEventFeed : public std::enable_shared_from_this<KvEventFeed> {
 public:
  /// Loop, router and decoder outlive it; all feeds of a thread share one decoder. `on_exact_changed`: exact() says
  /// something else than before. Requires upstream.kv_events.
  [[nodiscard]] static Result<std::shared_ptr<KvEventFeed>> connect(net::ZmqReceiver& receiver, net::EventLoop& loop,
                                                                    routing::Router& router,
                                                                    kv::KvEventDecoder& decoder, WorkerId worker,
                                                                    const spec::UpstreamSpec& upstream,
                                                                    std::function<void()> on_exact_changed);
  ~KvEventFeed();

  /// The index holds exactly what the worker published: the stream is connected and whole, and every batch was read.
  [[nodiscard]] bool exact() const;
  [[nodiscard]] const kv::EventSequencer::Counters& sequencer_counters() const { return sequencer_.counters(); }
  [[nodiscard]] const KvFeedCounters& counters() const { return counters_; }
  [[nodiscard]] std::uint64_t dropped_frames() const { return inbox_->dropped(); }

 private:
  KvEventFeed(net::EventLoop& loop, routing::Router& router, kv::KvEventDecoder& decoder, WorkerId worker,
              const spec::UpstreamSpec& upstream, std::function<void()> on_exact_changed);

  [[nodiscard]] net::ZmqSubscriberHandlers handlers();
  void take_frames();
  void handle(KvFrame frame);
  void act(std::vector<kv::SequencerAction> actions);
  void apply(const kv::ApplyPayload& batch);
  void on_cleared(std::uint64_t view, bool read_whole);
  void warn_of_refusals(std::size_t refused, std::size_t events);
  /// Sees to what was done: the next wake-up, and whether the index is exact.
  void settle();

  net::EventLoop* loop_;
  routing::Router* router_;
  kv::KvEventDecoder* decoder_;
  WorkerId worker_;
  std::string name_;
  std::function<void()> on_exact_changed_;
  bool was_exact_ = false;
  kv::EventSequencer sequencer_;
  KvFeedCounters counters_;
  std::uint64_t restarts_ = 0;  // of the sequencer's count, those that were seen to
  bool connected_ = false;
  bool unread_since_reset_ = false;
  WarningGate undecodable_warning_;
  WarningGate refused_warning_;
  WarningGate malformed_warning_;
  net::Timer timer_;
  std::shared_ptr<KvEventInbox> inbox_;
  std::unique_ptr<net::ZmqSubscriber> subscriber_;
};

}  // namespace kvist::gateway
