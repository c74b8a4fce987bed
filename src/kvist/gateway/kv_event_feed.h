// One worker's KV events: from its publisher into the index.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
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
#include "kvist/peering/index_message.h"
#include "kvist/peering/part_giver.h"
#include "kvist/routing/event_index.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// Cumulative counts beside those of the sequencer and the index.
struct KvFeedCounters {
  std::uint64_t undecodable_batches = 0;  ///< lost whole: the envelope is broken
  std::uint64_t skipped_events = 0;       ///< of batches that could be read otherwise
  std::uint64_t malformed_messages = 0;   ///< frames that are no message of a publisher
  kv::FieldCounts unknown_fields = {};    ///< of events that were used
};

/// A feed at one moment, for metrics and status.
struct KvFeedReport {
  bool exact = false;
  kv::EventSequencer::Counters sequencer = {};
  KvFeedCounters counters = {};
  std::uint64_t dropped_frames = 0;
  std::size_t waiting_bytes = 0;  ///< in the inbox
};

/// What a feed did, for routing.
struct KvFeedNews {
  routing::EventNews index = {};
  /// The index holds exactly what the worker published: the stream is connected and whole, and every batch was read.
  bool exact = false;
  /// Events were lost that the publisher does not have any more: the worker's part of another gateway's index would
  /// help.
  bool lost = false;
};

/// Owns the subscription. The receiver's thread only puts frames into the inbox and wakes the loop; sequencing,
/// decoding and the index live on the loop's thread, which does a piece at a time, so that feeds take turns. (Decoding
/// follows sequencing, because that may drop or reorder frames: decoding before would be wasted work, and needs the
/// order of resets anyway.) While the worker's part is taken out of the index or put into it, which is done in slices
/// too, frames wait in the inbox. Events that cannot be used are counted, and logged at a bounded rate. Threads: the
/// loop's.
class KvEventFeed : public std::enable_shared_from_this<KvEventFeed> {
 public:
  /// What all feeds of a loop share; outlives them.
  struct Shared {
    net::EventLoop* loop = nullptr;
    routing::EventIndex* index = nullptr;
    kv::KvEventDecoder decoder = {};
  };
  /// Called after each piece that changed something.
  using Tell = std::function<void(const KvFeedNews&)>;

  /// May be called before the loop runs. Requires: `upstream.kv_events` is not empty.
  [[nodiscard]] static Result<std::shared_ptr<KvEventFeed>> connect(net::ZmqReceiver& receiver, Shared& shared,
                                                                    WorkerId worker, const spec::UpstreamSpec& upstream,
                                                                    Tell tell);
  ~KvEventFeed();

  [[nodiscard]] KvFeedReport report() const;
  /// The worker's process is a new one. Handled, like on_published(), after the frames that came before.
  void on_worker_restarted();
  /// The worker says how many batches it has published.
  void on_published(std::uint64_t batches);

  // With other gateways (kv_event_feed_parts.cc). `done` is called now or later, but in any case.
  using Exported = std::function<void(std::variant<peering::PartRefusal, peering::ExportedPart>)>;
  /// Takes the worker's part out of the index.
  void export_part(Exported done);
  /// `problem`: why the index is as before, or has lost what it knew of the worker; empty: it has the part.
  using Imported = std::function<void(std::string_view problem)>;
  /// Puts the worker's part in the place of what the index knows, if the stream can go on from there.
  void import_part(std::shared_ptr<const peering::WorkerPart> part, Imported done);
  /// The frames from here on may be those that follow a part which is about to be asked for.
  void keep_frames(bool keep);

 private:
  KvEventFeed(Shared& shared, WorkerId worker, const spec::UpstreamSpec& upstream, Tell tell);

  /// The function that takes every frame, on any thread.
  [[nodiscard]] std::function<void(KvFrame)> push();
  [[nodiscard]] net::ZmqSubscriberHandlers handlers();
  void take_frames();
  void handle(KvFrame frame);
  void act(std::vector<kv::SequencerAction> actions);
  void apply(const kv::ApplyPayload& batch);
  void on_cleared(std::uint64_t view, bool read_whole);
  void on_unreadable(std::uint64_t view, std::string_view problem);
  void warn_of_refusals(std::size_t refused, std::size_t events);
  /// Once in each outage, when it has lasted.
  void warn_of_outage(std::string_view why, TimePoint now);
  /// Ends each piece of work: schedules the next wake-up, and calls `tell` if something changed.
  void settle();
  [[nodiscard]] bool exact() const;

  struct ExportJob;
  struct ImportJob;
  [[nodiscard]] bool is_held() const { return export_ != nullptr || import_ != nullptr; }
  void post(void (KvEventFeed::*work)());
  void export_slice();
  void end_export(std::variant<peering::PartRefusal, peering::ExportedPart> result);
  void import_slice();
  void end_import(std::string_view problem);

  Shared* shared_;
  WorkerId worker_;
  std::string name_;
  std::string address_;  // of its publisher
  Tell tell_;
  routing::EventNews news_;  // not told yet
  bool was_exact_ = false;
  bool was_lost_ = false;
  kv::EventSequencer sequencer_;
  KvFeedCounters counters_;
  std::uint64_t restarts_ = 0;  // those that were handled, of the sequencer's count
  bool connected_ = false;
  std::optional<TimePoint> down_since_;
  bool outage_told_ = false;
  bool unread_since_reset_ = false;
  WarningGate undecodable_warning_;
  WarningGate refused_warning_;
  WarningGate malformed_warning_;
  net::Timer timer_;
  std::shared_ptr<KvEventInbox> inbox_;
  // While there is one of these, no frame is taken.
  std::unique_ptr<ExportJob> export_;
  std::unique_ptr<ImportJob> import_;
  std::unique_ptr<net::ZmqSubscriber> subscriber_;
};

}  // namespace kvist::gateway
