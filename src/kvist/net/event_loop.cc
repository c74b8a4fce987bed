#include "kvist/net/event_loop.h"

#include <boost/asio/post.hpp>
#include <csignal>
#include <utility>

#include "kvist/net/loop_impl.h"

namespace kvist::net {

TimePoint now() {
  return TimePoint(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

EventLoop::EventLoop() : impl_(std::make_unique<LoopImpl>()) {}
EventLoop::~EventLoop() = default;

void EventLoop::run() {
  impl_->io.run();
}
void EventLoop::stop() {
  impl_->io.stop();
}
void EventLoop::post(std::function<void()> work) {
  asio::post(impl_->io, std::move(work));
}

namespace {

/// Handlers run at the first signal only; later ones are swallowed, because a terminal and a parent often both signal a
/// process that is already ending properly.
void await_signal(LoopImpl& loop) {
  loop.signals->async_wait([&loop](error_code error, int) {
    if (error) return;
    if (!std::exchange(loop.terminated, true)) {
      const auto handlers = std::move(loop.termination_handlers);
      for (const auto& handler : handlers) handler();
    }
    await_signal(loop);
  });
}

}  // namespace

void EventLoop::on_termination(std::function<void()> handler) {
  impl_->termination_handlers.push_back(std::move(handler));
  if (impl_->signals) return;
  impl_->signals.emplace(impl_->io, SIGINT, SIGTERM);
  await_signal(*impl_);
}

class Timer::Impl : public std::enable_shared_from_this<Timer::Impl> {
 public:
  explicit Impl(LoopImpl& loop) : timer_(loop.io.get_executor()) {}

  void arm(TimePoint when, std::function<void()> handler) {
    // A wait whose time had already come is in the loop's queue and cannot be called back: the number tells it apart.
    const std::uint64_t number = ++armed_;
    handler_ = std::move(handler);
    timer_.expires_at(to_steady(when));
    timer_.async_wait([self = shared_from_this(), number](error_code error) {
      if (error || number != self->armed_) return;
      // Out of the member first: the handler may arm this timer again or destroy it.
      const auto call = std::exchange(self->handler_, nullptr);
      if (call) call();
    });
  }

  void cancel() {
    ++armed_;
    handler_ = nullptr;
    timer_.cancel();
  }

 private:
  SteadyTimer timer_;
  std::function<void()> handler_;
  std::uint64_t armed_ = 0;
};

Timer::Timer(EventLoop& loop) : impl_(std::make_shared<Impl>(loop.impl())) {}
Timer::~Timer() {
  if (impl_) impl_->cancel();
}
Timer::Timer(Timer&&) noexcept = default;
Timer& Timer::operator=(Timer&& other) noexcept {
  if (this != &other) {
    if (impl_) impl_->cancel();
    impl_ = std::move(other.impl_);
  }
  return *this;
}

void Timer::arm(TimePoint when, std::function<void()> handler) {
  impl_->arm(when, std::move(handler));
}
void Timer::cancel() {
  impl_->cancel();
}

}  // namespace kvist::net
