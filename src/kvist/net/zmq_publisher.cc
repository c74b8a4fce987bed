#include "kvist/net/zmq_publisher.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "kvist/net/zmq_frames.h"

namespace kvist::net {

namespace {

// How long a publisher that ends waits for subscribers to read what is left.
constexpr std::chrono::milliseconds kLinger{200};
// Subscriptions and requests have a few bytes. A larger message is hostile; ZeroMQ then drops the connection.
constexpr std::int64_t kMaxReceivedBytes = 4096;
// How many messages a replay takes from the buffer under one lock, for which publish() must never wait long.
constexpr std::size_t kReplayBatch = 256;
// How many messages that left the buffer wait for their compaction before the replay thread is woken for it.
constexpr std::size_t kCompactionBatch = 256;
// What a subscriber takes as one message (ZmtpLimits), less a reserve for the other frames.
constexpr std::size_t kMostCompactedBytes = 63U << 20;

/// A pair of sockets over which other threads wake the thread that polls, because a socket must not be shared between
/// threads.
struct ControlPair {
  ControlPair(zmq::context_t& context, const std::string& name)
      : inner(context, zmq::socket_type::pair), outer(context, zmq::socket_type::pair) {
    inner.bind("inproc://" + name);
    outer.connect("inproc://" + name);
    outer.set(zmq::sockopt::linger, 0);
    inner.set(zmq::sockopt::linger, 0);
  }
  zmq::socket_t inner;  ///< the polling thread's end
  zmq::socket_t outer;  ///< everyone else's, under a mutex
};

/// Waits until one of the sockets has something to read.
template <std::size_t kCount>
void await_readable(std::array<zmq::pollitem_t, kCount>& items) {
  while (zmq_poll(items.data(), static_cast<int>(items.size()), -1) < 0) {
    if (zmq_errno() != EINTR) throw zmq::error_t();
  }
}

using Payload = std::shared_ptr<const std::string>;

/// A frame that shares `payload` instead of copying it.
zmq::message_t share(const Payload& payload) {
  auto* hold = new Payload(payload);  // ZeroMQ passes it to the function below
  const auto drop = [](void*, void* hint) { delete static_cast<Payload*>(hint); };
  // ZeroMQ's interface takes a pointer to non-const but does not write.
  return {const_cast<char*>(payload->data()), payload->size(), drop, hold};
}

/// The port in "tcp://host:port"; 0 for endpoints without one.
std::uint16_t port_of(const zmq::socket_t& socket) {
  const std::string endpoint = socket.get(zmq::sockopt::last_endpoint);
  const std::string_view digits = std::string_view(endpoint).substr(endpoint.rfind(':') + 1);
  std::uint16_t port = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), port);
  return port;
}

/// Threads: publish() uses the PUB socket and the buffer under mutex_ (handing a ZeroMQ socket from thread to thread is
/// allowed across a lock). The replay thread alone uses the ROUTER socket, and it uses the buffer under mutex_.
/// Invariants: kept_ holds the payloads of the numbers next_ - kept_.size() to next_ - 1, and fallen_ those before them
/// down to compacted_, unless the compaction has taken some of kept_ as well.
class Publisher final : public ZmqPublisher {
 public:
  explicit Publisher(ZmqPublisherOptions options)
      : options_(std::move(options)),
        publish_(context_, zmq::socket_type::pub),
        router_(context_, zmq::socket_type::router),
        control_(context_, "replay-control") {
    prepare(publish_, options_.endpoint, options_.high_water_mark);
    publish_.bind(options_.endpoint);
    port_ = port_of(publish_);
    if (options_.replay_endpoint.empty()) return;
    // There is room for one whole replay. A peer that asks again without reading gets no further answer.
    prepare(router_, options_.replay_endpoint, static_cast<int>(std::min(options_.buffer_messages, 1U << 24)) + 16);
    router_.set(zmq::sockopt::router_mandatory, true);
    router_.bind(options_.replay_endpoint);
    replay_port_ = port_of(router_);
    replay_thread_ = start_quiet_thread([this] { serve_replays(); });
  }

  ~Publisher() override {
    if (!replay_thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      wake_replay_thread();
    }
    replay_thread_.join();
  }

  std::uint64_t publish(std::string payload) override {
    const auto shared = std::make_shared<const std::string>(std::move(payload));
    const std::lock_guard lock(mutex_);
    const std::uint64_t sequence = next_++;
    if (!options_.replay_endpoint.empty()) {
      kept_.push_back(shared);
      if (kept_.size() > options_.buffer_messages) drop_oldest();
    }
    const SequenceBytes number = encode_sequence(sequence);
    // A PUB socket never blocks: for a subscriber at its high-water mark it drops, and the gap tells the subscriber.
    publish_.send(zmq::buffer(options_.topic), zmq::send_flags::sndmore);
    publish_.send(zmq::buffer(number), zmq::send_flags::sndmore);
    publish_.send(share(shared), zmq::send_flags::none);
    return sequence;
  }

  [[nodiscard]] std::uint16_t port() const override { return port_; }
  [[nodiscard]] std::uint16_t replay_port() const override { return replay_port_; }

 private:
  static void prepare(zmq::socket_t& socket, const std::string& endpoint, int high_water_mark) {
    socket.set(zmq::sockopt::linger, static_cast<int>(kLinger.count()));
    socket.set(zmq::sockopt::sndhwm, high_water_mark);
    socket.set(zmq::sockopt::maxmsgsize, kMaxReceivedBytes);
    socket.set(zmq::sockopt::ipv6, endpoint.contains('['));
  }

  void serve_replays() {
    std::array<zmq::pollitem_t, 2> items{
        {{router_.handle(), 0, ZMQ_POLLIN, 0}, {control_.inner.handle(), 0, ZMQ_POLLIN, 0}}};
    while (true) {
      await_readable(items);
      if ((items[1].revents & ZMQ_POLLIN) != 0 && !on_woken()) return;
      if ((items[0].revents & ZMQ_POLLIN) != 0) answer_request();
    }
  }

  /// Requires: mutex_ is held.
  void drop_oldest() {
    if (options_.compaction != nullptr) {
      fallen_.push_back(std::move(kept_.front()));
      if (fallen_.size() % kCompactionBatch == 0) wake_replay_thread();
    }
    kept_.pop_front();
  }
  /// Requires: mutex_ is held.
  void wake_replay_thread() { control_.outer.send(zmq::message_t(), zmq::send_flags::dontwait); }

  /// Returns false at the end.
  bool on_woken() {
    zmq::message_t woken;
    while (control_.inner.recv(woken, zmq::recv_flags::dontwait)) {
    }
    std::vector<Payload> fallen;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return false;
      fallen = take_fallen();
    }
    for (const Payload& payload : fallen) options_.compaction->take(*payload);
    return true;
  }

  /// What the compaction takes next: what fell out of the buffer, less what it has taken while that was still there.
  /// Requires: mutex_ is held.
  std::vector<Payload> take_fallen() {
    std::vector<Payload> fallen = std::exchange(fallen_, {});
    const std::uint64_t oldest = next_ - kept_.size();
    const std::uint64_t known = compacted_ - (oldest - fallen.size());
    fallen.erase(fallen.begin(),
                 fallen.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(known, fallen.size())));
    compacted_ = std::max(compacted_, oldest);
    return fallen;
  }

  /// If `from` is before the buffer's oldest message: one that stands for all up to that one, with its number. Its own
  /// number, because who asks from there has applied it and would take another content for another publisher.
  std::optional<std::pair<std::uint64_t, std::string>> compact_before(std::uint64_t from) {
    std::vector<Payload> taken;
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      number = next_ - kept_.size();
      if (options_.compaction == nullptr || from >= number || kept_.empty()) return std::nullopt;
      // Once the oldest one was taken it is not taken again before it falls out.
      const bool known = compacted_ > number;
      taken = known ? std::vector<Payload>{} : take_fallen();
      if (!known) taken.push_back(kept_.front());
      compacted_ = number + 1;
    }
    for (const Payload& payload : taken) options_.compaction->take(*payload);
    std::string message = options_.compaction->message();
    if (message.empty() || message.size() > kMostCompactedBytes) return std::nullopt;
    return std::pair(number, std::move(message));
  }

  /// A request is [identity, "", number]; other messages are dropped.
  void answer_request() {
    zmq::message_t identity;
    zmq::message_t last;
    if (!router_.recv(identity, zmq::recv_flags::dontwait)) return;
    bool more = identity.more();
    while (more && router_.recv(last)) more = last.more();
    if (is_sequence(last.to_string_view())) replay(identity, decode_sequence(last.to_string_view()));
  }

  void replay(const zmq::message_t& identity, std::uint64_t from) {
    std::vector<Payload> batch;
    try {
      if (auto compacted = compact_before(from)) {
        from = compacted->first + 1;
        if (!reply(identity, compacted->first, zmq::message_t(compacted->second))) return;
      }
      while (true) {
        batch.clear();
        const std::uint64_t first = take_batch(from, batch);
        for (std::size_t i = 0; i < batch.size(); ++i) {
          if (!reply(identity, first + i, share(batch[i]))) return;
        }
        if (batch.empty()) break;
        from = first + batch.size();
      }
      static_cast<void>(reply(identity, kReplayEnd, zmq::message_t()));
    } catch (const zmq::error_t&) {
      // The peer has gone (EHOSTUNREACH): nobody is left to answer.
      return;
    }
  }

  /// Copies the next kept payloads from number `from` on and returns the number of the first.
  std::uint64_t take_batch(std::uint64_t from, std::vector<Payload>& batch) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t oldest = next_ - kept_.size();
    const std::uint64_t first = std::max(from, oldest);
    for (std::uint64_t i = first; i < next_ && batch.size() < kReplayBatch; ++i) {
      batch.push_back(kept_[static_cast<std::size_t>(i - oldest)]);
    }
    return first;
  }

  /// Returns false if the peer does not read. It then gets no end marker, so that it does not take what it has for the
  /// whole replay.
  bool reply(const zmq::message_t& identity, std::uint64_t sequence, zmq::message_t payload) {
    constexpr auto kMore = zmq::send_flags::sndmore | zmq::send_flags::dontwait;
    const SequenceBytes number = encode_sequence(sequence);
    if (!router_.send(zmq::buffer(identity.data(), identity.size()), kMore)) return false;
    return router_.send(zmq::message_t(), kMore) && router_.send(zmq::buffer(options_.topic), kMore) &&
           router_.send(zmq::buffer(number), kMore) && router_.send(payload, zmq::send_flags::dontwait);
  }

  const ZmqPublisherOptions options_;
  zmq::context_t context_;
  zmq::socket_t publish_;
  zmq::socket_t router_;
  ControlPair control_;
  std::uint16_t port_ = 0;
  std::uint16_t replay_port_ = 0;
  std::mutex mutex_;
  std::deque<Payload> kept_;
  std::vector<Payload> fallen_;  // out of the buffer, and not yet compacted
  std::uint64_t compacted_ = 0;  // the first number that the compaction has not taken
  std::uint64_t next_ = 0;
  bool stopping_ = false;
  std::thread replay_thread_;
};

}  // namespace

Result<std::unique_ptr<ZmqPublisher>> ZmqPublisher::bind(ZmqPublisherOptions options) {
  const std::string where =
      options.endpoint + (options.replay_endpoint.empty() ? "" : " and " + options.replay_endpoint);
  try {
    return std::make_unique<Publisher>(std::move(options));
  } catch (const zmq::error_t& error) {
    return fail(ErrorCode::kUnavailable, "cannot publish on " + where + ": " + error.what());
  }
}

}  // namespace kvist::net
