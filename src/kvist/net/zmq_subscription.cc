#include "kvist/net/zmq_subscription.h"

#include <cstring>
#include <utility>

namespace kvist::net {

namespace {

// A larger message is hostile; ZeroMQ then drops the connection.
constexpr std::int64_t kMaxMessageBytes = 64LL << 20;
// How many messages of one socket are handled before the other sockets get their turn.
constexpr int kBurst = 256;

/// The last two frames of a message, and how many it had.
struct Tail {
  zmq::message_t before_last;
  zmq::message_t last;
  std::size_t frames = 0;
};

/// Receives a message. Returns false if none waits.
bool receive(zmq::socket_t& socket, Tail& tail) {
  tail = {};
  if (!socket.recv(tail.last, zmq::recv_flags::dontwait)) return false;
  tail.frames = 1;
  while (tail.last.more()) {
    tail.before_last = std::exchange(tail.last, zmq::message_t());
    if (!socket.recv(tail.last)) return false;
    ++tail.frames;
  }
  return true;
}

/// Calls `handle` for the messages that wait. Returns true if it stopped at the bound, so that more may wait.
template <class Handle>
bool read_burst(zmq::socket_t& socket, Handle handle) {
  Tail message;
  for (int i = 0; i < kBurst; ++i) {
    if (!receive(socket, message)) return false;
    handle(message);
  }
  return true;
}

void report_malformed(const ZmqSubscriberHandlers& handlers, const char* what, const Tail& message) {
  if (!handlers.on_malformed) return;
  handlers.on_malformed(std::string(what) + " of " + std::to_string(message.frames) + " frames with a number of " +
                        std::to_string(message.before_last.size()) + " bytes");
}

}  // namespace

/// A socket on the loop. Its descriptor becomes readable only once for what has changed, and any call on the socket
/// resets it, even a send. So the socket is read until no message is left, each time that the descriptor is readable
/// and after each send.
class ZmqSubscription::Channel final : public Watched {
 public:
  using Read = bool (ZmqSubscription::*)();

  Channel(LoopImpl& loop, ZmqSubscription& owner, zmq::socket_t& socket, Read read)
      : Watched(loop), owner_(owner), read_(read) {
    watch_reading(socket.get(zmq::sockopt::fd));
    read_soon();  // the descriptor does not tell what came before
  }

  void read_soon() { call_soon(); }

 private:
  void on_ready() override {
    if ((owner_.*read_)()) call_soon();
  }

  ZmqSubscription& owner_;
  Read read_;
};

ZmqSubscription::ZmqSubscription(zmq::context_t& context, ZmqSubscriberOptions options, ZmqSubscriberHandlers handlers,
                                 std::uint64_t number)
    : options_(std::move(options)),
      handlers_(std::move(handlers)),
      live_(context, zmq::socket_type::sub),
      replay_(context, zmq::socket_type::dealer),
      monitor_(context, zmq::socket_type::pair) {
  prepare(live_, options_.endpoint);
  live_.set(zmq::sockopt::subscribe, options_.topic);
  // The monitor starts before the connection, so that it sees the first one too.
  constexpr int kEvents = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED;
  const std::string monitor_address = "inproc://subscription-" + std::to_string(number);
  if (zmq_socket_monitor(live_.handle(), monitor_address.c_str(), kEvents) != 0) throw zmq::error_t();
  monitor_.set(zmq::sockopt::linger, 0);
  monitor_.connect(monitor_address);
  if (options_.endpoint.contains('*')) {
    live_.bind(options_.endpoint);
  } else {
    live_.connect(options_.endpoint);
  }
  if (options_.replay_endpoint.empty()) return;
  prepare(replay_, options_.replay_endpoint);
  replay_.connect(options_.replay_endpoint);
}

ZmqSubscription::~ZmqSubscription() {
  channels_.clear();
  zmq_socket_monitor(live_.handle(), nullptr, 0);
}

void ZmqSubscription::prepare(zmq::socket_t& socket, const std::string& endpoint) const {
  socket.set(zmq::sockopt::linger, 0);
  // With the default of 1000 ZeroMQ drops messages of a burst, and a replay is one long burst.
  socket.set(zmq::sockopt::rcvhwm, options_.high_water_mark);
  socket.set(zmq::sockopt::maxmsgsize, kMaxMessageBytes);
  socket.set(zmq::sockopt::reconnect_ivl, 100);
  socket.set(zmq::sockopt::reconnect_ivl_max, 1000);
  socket.set(zmq::sockopt::tcp_keepalive, 1);  // notices a host that vanished without a word
  socket.set(zmq::sockopt::tcp_keepalive_idle, 30);
  socket.set(zmq::sockopt::ipv6, endpoint.contains('['));
}

void ZmqSubscription::start(LoopImpl& loop) {
  const auto add = [&](zmq::socket_t& socket, Channel::Read read) {
    channels_.push_back(std::make_unique<Channel>(loop, *this, socket, read));
  };
  add(monitor_, &ZmqSubscription::read_monitor);
  add(live_, &ZmqSubscription::read_live);
  add(replay_, &ZmqSubscription::read_replay);
  replay_channel_ = channels_.back().get();
}

void ZmqSubscription::request_replay(std::uint64_t sequence) {
  if (options_.replay_endpoint.empty()) return;
  const SequenceBytes number = encode_sequence(sequence);
  // A request for which the replay channel has no room is lost. The caller's time-out notices, as for one that the
  // publisher never received.
  constexpr auto kNow = zmq::send_flags::dontwait;
  if (replay_.send(zmq::message_t(), zmq::send_flags::sndmore | kNow)) {
    static_cast<void>(replay_.send(zmq::buffer(number), kNow));
  }
  replay_channel_->read_soon();
}

bool ZmqSubscription::read_monitor() {
  // A monitor's message has two frames: the number of the event with its value, and an address.
  return read_burst(monitor_, [this](const Tail& event) {
    std::uint16_t number = 0;
    if (event.before_last.size() < sizeof(number)) return;
    std::memcpy(&number, event.before_last.data(), sizeof(number));
    const auto& handler = number == ZMQ_EVENT_DISCONNECTED ? handlers_.on_disconnected : handlers_.on_connected;
    if (handler) handler();
  });
}

bool ZmqSubscription::read_live() {
  return read_burst(live_, [this](const Tail& message) {
    if (message.frames != 3 || !is_sequence(message.before_last)) {
      report_malformed(handlers_, "a published message", message);
    } else if (handlers_.on_live) {
      handlers_.on_live(decode_sequence(message.before_last), message.last.to_string());
    }
  });
}

/// A message is ["", topic, number, payload] from newer publishers and ["", number, payload] from older ones.
bool ZmqSubscription::read_replay() {
  return read_burst(replay_, [this](const Tail& message) {
    if (message.frames < 2 || !is_sequence(message.before_last)) {
      report_malformed(handlers_, "a replayed message", message);
      return;
    }
    const std::uint64_t sequence = decode_sequence(message.before_last);
    if (sequence == kReplayEnd && message.last.empty()) {
      if (handlers_.on_replay_end) handlers_.on_replay_end();
    } else if (handlers_.on_replayed) {
      handlers_.on_replayed(sequence, message.last.to_string());
    }
  });
}

}  // namespace kvist::net
