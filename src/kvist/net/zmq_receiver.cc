#include "kvist/net/zmq_receiver.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <atomic>
#include <latch>
#include <string>
#include <thread>
#include <utility>

#include "kvist/net/event_loop.h"
#include "kvist/net/zmq_frames.h"
#include "kvist/net/zmq_subscription.h"

namespace kvist::net {

namespace {

// The most requests of one subscription that are not yet passed on to the publisher. Further ones are dropped: the
// caller asks again after its time-out.
constexpr int kMostReplayRequests = 64;
// Descriptors that are left for everything but subscriptions.
constexpr std::size_t kOtherDescriptors = 64;

class Receiver;

/// Its subscription lives on the receiver's loop. The destructor ends it there and waits until it has ended.
class Subscriber final : public ZmqSubscriber {
 public:
  Subscriber(std::shared_ptr<Receiver> receiver, std::unique_ptr<ZmqSubscription> subscription);
  ~Subscriber() override;
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;
  void request_replay(std::uint64_t sequence) override;

 private:
  struct Inside {
    std::unique_ptr<ZmqSubscription> subscription;  // the loop's thread only
    std::atomic<int> replay_requests = 0;
  };
  std::shared_ptr<Receiver> receiver_;
  std::shared_ptr<Inside> inside_;
};

class Receiver final : public ZmqReceiver, public std::enable_shared_from_this<Receiver> {
 public:
  Receiver() : thread_(start_quiet_thread([this] { loop_.run(); })) {}
  ~Receiver() override {
    loop_.stop();
    thread_.join();
  }
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  Result<std::unique_ptr<ZmqSubscriber>> subscribe(ZmqSubscriberOptions options,
                                                   ZmqSubscriberHandlers handlers) override {
    const std::string where = options.endpoint;
    const std::size_t count = subscriptions_.fetch_add(1) + 1;
    auto subscription = make(options, std::move(handlers), count);
    if (!subscription) {
      subscriptions_.fetch_sub(1);
      return std::unexpected(std::move(subscription).error().in("cannot subscribe to " + where));
    }
    return std::make_unique<Subscriber>(shared_from_this(), std::move(*subscription));
  }

  [[nodiscard]] EventLoop& loop() { return loop_; }
  void on_ended() { subscriptions_.fetch_sub(1); }

 private:
  [[nodiscard]] Result<std::unique_ptr<ZmqSubscription>> make(const ZmqSubscriberOptions& options,
                                                              ZmqSubscriberHandlers handlers, std::size_t count) {
    if (count > kMostSubscriptions)
      return fail(ErrorCode::kResourceExhausted, fmt::format("{} subscriptions are the most", kMostSubscriptions));
    // Checked here, because a connection that finds no descriptor is tried again for ever, and nobody would be told.
    const std::size_t wanted = count * kDescriptors + kOtherDescriptors;
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < wanted) return too_few_descriptors(count, limit);
    return ZmqSubscription::open(options, std::move(handlers));
  }
  [[nodiscard]] static std::unexpected<Error> too_few_descriptors(std::size_t count, const rlimit& limit) {
    return fail(ErrorCode::kResourceExhausted,
                fmt::format("{} subscriptions take {} file descriptors, and the process may have {} open: raise the "
                            "limit (ulimit -n, LimitNOFILE=)",
                            count, count * kDescriptors, limit.rlim_cur));
  }

  EventLoop loop_;
  std::atomic<std::size_t> subscriptions_ = 0;
  std::thread thread_;
};

Subscriber::Subscriber(std::shared_ptr<Receiver> receiver, std::unique_ptr<ZmqSubscription> subscription)
    : receiver_(std::move(receiver)), inside_(std::make_shared<Inside>()) {
  inside_->subscription = std::move(subscription);
  EventLoop& loop = receiver_->loop();
  loop.post([inside = inside_, &loop] { inside->subscription->start(loop.impl()); });
}

Subscriber::~Subscriber() {
  std::latch ended(1);
  receiver_->loop().post([this, &ended] {
    inside_->subscription.reset();
    ended.count_down();
  });
  ended.wait();
  receiver_->on_ended();
}

void Subscriber::request_replay(std::uint64_t sequence) {
  if (inside_->replay_requests.fetch_add(1) >= kMostReplayRequests) {
    inside_->replay_requests.fetch_sub(1);
    return;
  }
  receiver_->loop().post([inside = inside_, sequence] {
    inside->replay_requests.fetch_sub(1);
    if (inside->subscription) inside->subscription->request_replay(sequence);
  });
}

}  // namespace

std::shared_ptr<ZmqReceiver> ZmqReceiver::create() {
  return std::make_shared<Receiver>();
}

}  // namespace kvist::net
