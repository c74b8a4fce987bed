#include "kvist/gateway/kv_event_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "kvist/gateway/log_component.h"
#include "kvist/kv_index/kv_index.h"
#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

// How much is taken from an inbox before other work of the loop gets its turn: some 800 blocks, a fifth of a
// millisecond.
constexpr std::size_t kPieceBytes = 64U << 10;

// Parts of a deployment may start in any order: how long a publisher may not be there before that is told.
constexpr Duration kOutageToTell = std::chrono::seconds(5);

kv::EventSequencer::Options sequencer_options(bool replay_available) {
  kv::EventSequencer::Options options;
  options.replay_available = replay_available;
  return options;
}

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// The reasons for which this worker's events were refused so far: "block_size 12, unknown_parent 1".
std::string refusals(const kv_index::KvIndexCounters& counters) {
  std::string text;
  for (std::size_t i = 0; i < counters.refused.size(); ++i) {
    if (counters.refused[i] == 0) continue;
    fmt::format_to(std::back_inserter(text), "{}{} {}", text.empty() ? "" : ", ",
                   to_string(static_cast<kv_index::Refusal>(i)), counters.refused[i]);
  }
  return text;
}

}  // namespace

Result<std::shared_ptr<KvEventFeed>> KvEventFeed::connect(net::ZmqReceiver& receiver, Shared& shared, WorkerId worker,
                                                          const spec::UpstreamSpec& upstream, Tell tell) {
  std::shared_ptr<KvEventFeed> feed(new KvEventFeed(shared, worker, upstream, std::move(tell)));
  auto subscriber = receiver.subscribe(
      {.endpoint = upstream.kv_events, .replay_endpoint = upstream.kv_replay, .topic = ""}, feed->handlers());
  if (!subscriber) return std::unexpected(std::move(subscriber).error().in("KV events of " + upstream.name));
  feed->subscriber_ = std::move(*subscriber);
  return feed;
}

KvEventFeed::KvEventFeed(Shared& shared, WorkerId worker, const spec::UpstreamSpec& upstream, Tell tell)
    : shared_(&shared),
      worker_(worker),
      name_(upstream.name),
      address_(upstream.kv_events),
      tell_(std::move(tell)),
      sequencer_(sequencer_options(!upstream.kv_replay.empty())),
      timer_(*shared.loop),
      inbox_(std::make_shared<KvEventInbox>()) {}

KvFeedReport KvEventFeed::report() const {
  return {.exact = exact(),
          .sequencer = sequencer_.counters(),
          .counters = counters_,
          .dropped_frames = inbox_->dropped(),
          .waiting_bytes = inbox_->bytes()};
}

std::function<void(KvFrame)> KvEventFeed::push() {
  return [loop = shared_->loop, inbox = inbox_, weak = weak_from_this()](KvFrame frame) {
    if (!inbox->push(std::move(frame))) return;
    loop->post([weak] {
      if (const auto self = weak.lock()) self->take_frames();
    });
  };
}

net::ZmqSubscriberHandlers KvEventFeed::handlers() {
  const auto push = this->push();
  using Kind = KvFrame::Kind;
  return {.on_connected = [push] { push({.kind = Kind::kConnected, .sequence = 0, .payload = {}}); },
          .on_disconnected = [push](std::string why) { push({Kind::kDisconnected, 0, std::move(why)}); },
          .on_live = [push](std::uint64_t sequence,
                            std::string payload) { push({Kind::kLive, sequence, std::move(payload)}); },
          .on_replayed = [push](std::uint64_t sequence,
                                std::string payload) { push({Kind::kReplayed, sequence, std::move(payload)}); },
          .on_replay_end = [push] { push({.kind = Kind::kReplayEnd, .sequence = 0, .payload = {}}); },
          .on_malformed = [push](std::string what) { push({Kind::kMalformed, 0, std::move(what)}); },
          .on_unreachable = [push](std::string why) { push({Kind::kUnreachable, 0, std::move(why)}); }};
}

void KvEventFeed::take_frames() {
  if (is_held()) return;
  KvEventInbox::Piece piece = inbox_->take(kPieceBytes);
  for (KvFrame& frame : piece.frames) handle(std::move(frame));
  settle();
  if (piece.more) post(&KvEventFeed::take_frames);
}

void KvEventFeed::post(void (KvEventFeed::*work)()) {
  shared_->loop->post([work, weak = weak_from_this()] {
    if (const auto self = weak.lock()) (*self.*work)();
  });
}

void KvEventFeed::handle(KvFrame frame) {
  const TimePoint now = net::now();
  switch (frame.kind) {
    case KvFrame::Kind::kConnected:
      connected_ = true;
      down_since_.reset();
      if (std::exchange(outage_told_, false))
        telemetry::log_info(log_component::kKvEvents, fmt::format("{}: connected to {}", name_, address_));
      return act(sequencer_.on_connected(now));
    case KvFrame::Kind::kDisconnected:
      connected_ = false;
      down_since_ = now;
      telemetry::log_warning(log_component::kKvEvents,
                             fmt::format("{}: the connection to its publisher broke: {}", name_, frame.payload));
      return;
    case KvFrame::Kind::kLive:
      return act(sequencer_.on_live(frame.sequence, std::move(frame.payload), now));
    case KvFrame::Kind::kReplayed:
      return act(sequencer_.on_replayed(frame.sequence, std::move(frame.payload), now));
    case KvFrame::Kind::kReplayEnd:
      return act(sequencer_.on_replay_end(now));
    case KvFrame::Kind::kPublished:
      return act(sequencer_.on_published(frame.sequence, now));
    case KvFrame::Kind::kRestarted:
      return act(sequencer_.on_restarted(now));
    case KvFrame::Kind::kUnreachable:
      return warn_of_outage(frame.payload, now);
    case KvFrame::Kind::kMalformed:
      ++counters_.malformed_messages;
      if (malformed_warning_.pass(now)) {
        telemetry::log_warning(log_component::kKvEvents,
                               fmt::format("{}: not a message of a KV event publisher: {} ({} more)", name_,
                                           frame.payload, malformed_warning_.suppressed()));
      }
      return;
  }
}

void KvEventFeed::warn_of_outage(std::string_view why, TimePoint now) {
  if (!down_since_) down_since_ = now;
  if (outage_told_ || now - *down_since_ < kOutageToTell) return;
  outage_told_ = true;
  telemetry::log_warning(
      log_component::kKvEvents,
      fmt::format("{}: no KV events from {}: {}; until they come, its cache is only guessed", name_, address_, why));
}

void KvEventFeed::on_worker_restarted() {
  push()({.kind = KvFrame::Kind::kRestarted, .sequence = 0, .payload = {}});
}

void KvEventFeed::on_published(std::uint64_t batches) {
  push()({.kind = KvFrame::Kind::kPublished, .sequence = batches, .payload = {}});
}

void KvEventFeed::act(std::vector<kv::SequencerAction> actions) {
  if (sequencer_.counters().restarts != restarts_) {
    restarts_ = sequencer_.counters().restarts;
    news_.add({.cache_emptied = true});
  }
  for (kv::SequencerAction& action : actions) {
    if (const auto* batch = std::get_if<kv::ApplyPayload>(&action)) {
      apply(*batch);
    } else if (const auto* reset = std::get_if<kv::ResetWorker>(&action)) {
      telemetry::log_info(log_component::kKvEvents, fmt::format("{}: index reset: {}", name_, reset->reason));
      news_.add(shared_->index->reset(worker_));
      unread_since_reset_ = false;
    } else if (const auto* replay = std::get_if<kv::RequestReplay>(&action)) {
      subscriber_->request_replay(replay->from);
    }
  }
}

void KvEventFeed::apply(const kv::ApplyPayload& batch) {
  shared_->index->prefetch(worker_);  // comes while the events are read
  const auto decoded = shared_->decoder.decode(bytes_of(batch.payload));
  if (!decoded) {
    ++counters_.undecodable_batches;
    return on_unreadable(batch.view, decoded.error().message);
  }
  counters_.skipped_events += decoded->skipped_events;
  counters_.unknown_fields.add(decoded->unknown_fields);
  const std::span<const kv::KvEventView> events = decoded->events;
  const routing::EventIndex::Applied applied = shared_->index->apply(worker_, events);
  news_.add(applied.news);
  warn_of_refusals(applied.refused, events.size());
  if (std::ranges::find(events, kv::KvEventView::Kind::kCleared, &kv::KvEventView::kind) != events.end())
    on_cleared(batch.view, decoded->skipped_events == 0);
  if (decoded->skipped_events > 0) on_unreadable(batch.view, decoded->first_problem);
}

void KvEventFeed::on_unreadable(std::uint64_t view, std::string_view problem) {
  const TimePoint now = net::now();
  unread_since_reset_ = true;
  sequencer_.on_unreadable(view, now);
  if (!undecodable_warning_.pass(now)) return;
  telemetry::log_warning(log_component::kKvEvents,
                         fmt::format("{}: KV events cannot be read, so its cache is known in part only: {} ({} more)",
                                     name_, problem, undecodable_warning_.suppressed()));
}

void KvEventFeed::on_cleared(std::uint64_t view, bool read_whole) {
  const bool was_whole = sequencer_.whole() && !unread_since_reset_;
  sequencer_.on_cleared(view);
  // What could not be read of the same batch may have come after it.
  if (read_whole) unread_since_reset_ = false;
  if (!was_whole && sequencer_.whole() && !unread_since_reset_)
    telemetry::log_info(log_component::kKvEvents,
                        fmt::format("{}: its cache was cleared, so the index is whole from here on", name_));
}

void KvEventFeed::warn_of_refusals(std::size_t refused, std::size_t events) {
  if (refused == 0 || !refused_warning_.pass(net::now())) return;
  const kv_index::KvIndex& index = shared_->index->index();
  telemetry::log_warning(log_component::kKvEvents,
                         fmt::format("{}: {} of {} KV events of a batch refused; in all: {} (block size here: {})",
                                     name_, refused, events, refusals(index.counters(worker_)), index.block_size()));
}

void KvEventFeed::settle() {
  if (!sequencer_.lost()) sequencer_.drop_kept();
  if (const auto wakeup = sequencer_.next_wakeup(); wakeup && !is_held()) {
    timer_.arm(*wakeup, [this] {
      act(sequencer_.poll(net::now()));
      settle();
    });
  } else {
    timer_.cancel();
  }
  const bool is_exact = exact();
  const bool is_lost = connected_ && sequencer_.lost();
  const bool changed = is_exact != was_exact_ || is_lost != was_lost_;
  was_exact_ = is_exact;
  was_lost_ = is_lost;
  if (changed || !news_.empty()) tell_({.index = std::exchange(news_, {}), .exact = is_exact, .lost = is_lost});
}

bool KvEventFeed::exact() const {
  return connected_ && sequencer_.whole() && !unread_since_reset_ && import_ == nullptr;
}

}  // namespace kvist::gateway
