#include "kvist/net/event_loop.h"

#include <chrono>
#include <utility>

#include "kvist/net/loop_impl.h"

namespace kvist::net {

TimePoint now() {
  return TimePoint(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

EventLoop::EventLoop() : impl_(std::make_unique<LoopImpl>()) {}
EventLoop::~EventLoop() = default;

void EventLoop::run() {
  impl_->run();
}
void EventLoop::stop() {
  impl_->stop();
}
void EventLoop::post(std::function<void()> work) {
  impl_->post(std::move(work));
}
void EventLoop::on_termination(std::function<void()> handler) {
  impl_->on_termination(std::move(handler));
}
void EventLoop::on_hangup(std::function<void()> handler) {
  impl_->on_hangup(std::move(handler));
}
void EventLoop::on_repeated_termination(std::function<void()> handler) {
  impl_->on_repeated_termination(std::move(handler));
}

class Timer::Impl {
 public:
  explicit Impl(LoopImpl& loop) : node(loop.timers()) {}
  TimerNode node;
};

Timer::Timer(EventLoop& loop) : impl_(std::make_unique<Impl>(loop.impl())) {}
Timer::~Timer() = default;
Timer::Timer(Timer&&) noexcept = default;
Timer& Timer::operator=(Timer&& other) noexcept = default;

void Timer::arm(TimePoint when, std::function<void()> handler) {
  impl_->node.arm(when, std::move(handler));
}
void Timer::cancel() {
  impl_->node.cancel();
}

}  // namespace kvist::net
