#include "kvist/net/zmq_subscription.h"

#include <string>
#include <utility>

#include "kvist/net/zmq_frames.h"
#include "kvist/net/zmtp_encoder.h"

namespace kvist::net {

Result<std::unique_ptr<ZmqSubscription>> ZmqSubscription::open(const ZmqSubscriberOptions& options,
                                                               ZmqSubscriberHandlers handlers) {
  std::unique_ptr<ZmqSubscription> made(new ZmqSubscription(std::move(handlers)));
  ZmqSubscription* const self = made.get();
  const auto broken = [self](const std::string& what) {
    if (self->handlers_.on_malformed) self->handlers_.on_malformed(what);
  };
  KVIST_TRY(ZmtpEndpoint live, parse_zmtp_endpoint(options.endpoint));
  made->live_ = std::make_shared<ZmtpChannel>(
      std::move(live),
      ZmtpRole{.socket_type = "SUB", .peer_types = {"PUB", "XPUB"}, .first_bytes = zmtp_subscribe(options.topic)},
      ZmtpChannel::Handlers{.on_up =
                                [self] {
                                  if (self->handlers_.on_connected) self->handlers_.on_connected();
                                },
                            .on_message = [self](ZmtpMessage& frames) { self->take_live(frames); },
                            .on_down =
                                [self](const std::string& why) {
                                  if (self->handlers_.on_disconnected) self->handlers_.on_disconnected(why);
                                },
                            .on_broken = broken,
                            .on_failed =
                                [self](const std::string& why) {
                                  if (self->handlers_.on_unreachable) self->handlers_.on_unreachable(why);
                                }});
  KVIST_TRY_VOID(made->live_->open());
  if (options.replay_endpoint.empty()) return made;
  KVIST_TRY(ZmtpEndpoint replay, parse_zmtp_endpoint(options.replay_endpoint));
  if (replay.listens)
    return fail(ErrorCode::kInvalidArgument,
                "\"" + options.replay_endpoint + "\": a replay is asked for at one worker, so it cannot be *");
  made->replay_ = std::make_shared<ZmtpChannel>(
      std::move(replay),
      ZmtpRole{.socket_type = "DEALER", .peer_types = {"ROUTER", "DEALER", "REP"}, .first_bytes = {}},
      ZmtpChannel::Handlers{.on_up = nullptr,
                            .on_message = [self](ZmtpMessage& frames) { self->take_replayed(frames); },
                            .on_down = nullptr,
                            .on_broken = broken});
  return made;
}

ZmqSubscription::~ZmqSubscription() {
  if (live_) live_->stop();
  if (replay_) replay_->stop();
}

void ZmqSubscription::start(LoopImpl& loop) {
  live_->start(loop);
  if (replay_) replay_->start(loop);
}

// A request that is lost is noticed by the caller's time-out, as one that the publisher never received.
void ZmqSubscription::request_replay(std::uint64_t sequence) {
  if (!replay_) return;
  const SequenceBytes number = encode_sequence(sequence);
  replay_->send(zmtp_message({"", {reinterpret_cast<const char*>(number.data()), number.size()}}));
}

void ZmqSubscription::report_malformed(const char* what, const ZmtpMessage& frames) const {
  if (!handlers_.on_malformed) return;
  const std::size_t number = frames.size() < 2 ? 0 : frames[frames.size() - 2].size();
  handlers_.on_malformed(std::string(what) + " of " + std::to_string(frames.size()) + " frames with a number of " +
                         std::to_string(number) + " bytes");
}

void ZmqSubscription::take_live(ZmtpMessage& frames) const {
  if (frames.size() != 3 || !is_sequence(frames[1])) return report_malformed("a published message", frames);
  if (handlers_.on_live) handlers_.on_live(decode_sequence(frames[1]), std::move(frames[2]));
}

/// A message is ["", topic, number, payload] from newer publishers and ["", number, payload] from older ones.
void ZmqSubscription::take_replayed(ZmtpMessage& frames) const {
  if (frames.size() < 2 || !is_sequence(frames[frames.size() - 2]))
    return report_malformed("a replayed message", frames);
  const std::uint64_t sequence = decode_sequence(frames[frames.size() - 2]);
  if (sequence == kReplayEnd && frames.back().empty()) {
    if (handlers_.on_replay_end) handlers_.on_replay_end();
  } else if (handlers_.on_replayed) {
    handlers_.on_replayed(sequence, std::move(frames.back()));
  }
}

}  // namespace kvist::net
