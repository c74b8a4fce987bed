#include "kvist/net/zmq_subscriber.h"

#include <array>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "kvist/net/zmq_frames.h"

namespace kvist::net {

namespace {

// A larger message is hostile; ZeroMQ then drops the connection.
constexpr std::int64_t kMaxMessageBytes = 64LL << 20;
// Messages handled from one socket before the others get their turn.
constexpr int kBurst = 256;
constexpr const char* kMonitorAddress = "inproc://subscription-monitor";

/// The last two frames of a message, and how many it had.
struct Tail {
  zmq::message_t before_last;
  zmq::message_t last;
  std::size_t frames = 0;
};

/// False where nothing waits.
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

/// Threads: one thread uses all sockets but control_.outer, which everyone uses under mutex_.
class Subscriber final : public ZmqSubscriber {
 public:
  Subscriber(ZmqSubscriberOptions options, ZmqSubscriberHandlers handlers)
      : options_(std::move(options)),
        handlers_(std::move(handlers)),
        live_(context_, zmq::socket_type::sub),
        replay_(context_, zmq::socket_type::dealer),
        monitor_(context_, zmq::socket_type::pair),
        control_(context_, "subscription-control") {
    prepare(live_, options_.endpoint);
    live_.set(zmq::sockopt::subscribe, options_.topic);
    // The monitor first, so that the first connection is seen too.
    constexpr int kEvents = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED;
    if (zmq_socket_monitor(live_.handle(), kMonitorAddress, kEvents) != 0) throw zmq::error_t();
    monitor_.set(zmq::sockopt::linger, 0);
    monitor_.connect(kMonitorAddress);
    if (options_.endpoint.contains('*')) {
      live_.bind(options_.endpoint);
    } else {
      live_.connect(options_.endpoint);
    }
    if (!options_.replay_endpoint.empty()) {
      prepare(replay_, options_.replay_endpoint);
      replay_.connect(options_.replay_endpoint);
    }
    thread_ = start_quiet_thread([this] { run(); });
  }

  ~Subscriber() override {
    {
      const std::lock_guard lock(mutex_);
      // Blocking is fine: the thread empties this queue before everything else.
      control_.outer.send(zmq::message_t(), zmq::send_flags::none);
    }
    thread_.join();
    zmq_socket_monitor(live_.handle(), nullptr, 0);
  }

  void request_replay(std::uint64_t sequence) override {
    const SequenceBytes number = encode_sequence(sequence);
    const std::lock_guard lock(mutex_);
    static_cast<void>(control_.outer.send(zmq::buffer(number), zmq::send_flags::dontwait));
  }

 private:
  void prepare(zmq::socket_t& socket, const std::string& endpoint) const {
    socket.set(zmq::sockopt::linger, 0);
    // The default of 1000 drops in bursts, and a replay is one long burst.
    socket.set(zmq::sockopt::rcvhwm, options_.high_water_mark);
    socket.set(zmq::sockopt::maxmsgsize, kMaxMessageBytes);
    socket.set(zmq::sockopt::reconnect_ivl, 100);
    socket.set(zmq::sockopt::reconnect_ivl_max, 1000);
    socket.set(zmq::sockopt::tcp_keepalive, 1);  // notices a host that vanished without a word
    socket.set(zmq::sockopt::tcp_keepalive_idle, 30);
    socket.set(zmq::sockopt::ipv6, endpoint.contains('['));
  }

  void run() {
    std::array<zmq::pollitem_t, 4> items{{{control_.inner.handle(), 0, ZMQ_POLLIN, 0},
                                          {monitor_.handle(), 0, ZMQ_POLLIN, 0},
                                          {live_.handle(), 0, ZMQ_POLLIN, 0},
                                          {replay_.handle(), 0, ZMQ_POLLIN, 0}}};
    const auto ready = [&](std::size_t i) { return (items[i].revents & ZMQ_POLLIN) != 0; };
    while (true) {
      await_readable(items);
      if (ready(0) && !obey_control()) return;
      if (ready(1)) read_monitor();
      if (ready(2)) read_live();
      if (ready(3)) read_replay();
    }
  }

  /// False: the end.
  bool obey_control() {
    zmq::message_t command;
    while (control_.inner.recv(command, zmq::recv_flags::dontwait)) {
      if (command.empty()) return false;
      if (options_.replay_endpoint.empty()) continue;
      // A request the replay channel has no room for is lost like one the publisher never got: the caller's time-out.
      constexpr auto kNow = zmq::send_flags::dontwait;
      if (replay_.send(zmq::message_t(), zmq::send_flags::sndmore | kNow)) {
        static_cast<void>(replay_.send(command, kNow));
      }
    }
    return true;
  }

  void read_monitor() {
    Tail event;  // the number of the event with its value, and an address
    while (receive(monitor_, event)) {
      std::uint16_t number = 0;
      if (event.before_last.size() < sizeof(number)) continue;
      std::memcpy(&number, event.before_last.data(), sizeof(number));
      const auto& handler = number == ZMQ_EVENT_DISCONNECTED ? handlers_.on_disconnected : handlers_.on_connected;
      if (handler) handler();
    }
  }

  void read_live() {
    Tail message;
    for (int i = 0; i < kBurst && receive(live_, message); ++i) {
      if (message.frames != 3 || !is_sequence(message.before_last)) {
        malformed("a published message", message);
      } else if (handlers_.on_live) {
        handlers_.on_live(decode_sequence(message.before_last), message.last.to_string());
      }
    }
  }

  /// ["", topic, number, payload] from newer publishers, ["", number, payload] from older ones.
  void read_replay() {
    Tail message;
    for (int i = 0; i < kBurst && receive(replay_, message); ++i) {
      if (message.frames < 2 || !is_sequence(message.before_last)) {
        malformed("a replayed message", message);
        continue;
      }
      const std::uint64_t sequence = decode_sequence(message.before_last);
      if (sequence == kReplayEnd && message.last.empty()) {
        if (handlers_.on_replay_end) handlers_.on_replay_end();
      } else if (handlers_.on_replayed) {
        handlers_.on_replayed(sequence, message.last.to_string());
      }
    }
  }

  void malformed(const char* what, const Tail& message) const {
    if (!handlers_.on_malformed) return;
    handlers_.on_malformed(std::string(what) + " of " + std::to_string(message.frames) + " frames with a number of " +
                           std::to_string(message.before_last.size()) + " bytes");
  }

  const ZmqSubscriberOptions options_;
  const ZmqSubscriberHandlers handlers_;
  zmq::context_t context_;
  zmq::socket_t live_;
  zmq::socket_t replay_;
  zmq::socket_t monitor_;
  ControlPair control_;
  std::mutex mutex_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<ZmqSubscriber>> ZmqSubscriber::connect(ZmqSubscriberOptions options,
                                                              ZmqSubscriberHandlers handlers) {
  const std::string where = options.endpoint;
  try {
    return std::make_unique<Subscriber>(std::move(options), std::move(handlers));
  } catch (const zmq::error_t& error) {
    return fail(ErrorCode::kUnavailable, "cannot subscribe to " + where + ": " + error.what());
  }
}

}  // namespace kvist::net
