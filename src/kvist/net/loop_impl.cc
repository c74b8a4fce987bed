#include "kvist/net/loop_impl.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <iterator>
#include <optional>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/net/process_signals.h"

namespace kvist::net {
namespace {

/// The most events that are read at once. All that is ready should be known before anything less urgent is handled.
constexpr std::size_t kEvents = 1'024;
/// The most chunks of streams that are handled before new requests are looked for again: less than a millisecond.
constexpr std::size_t kBulkAtOnce = 32;
constexpr std::size_t kUrgentAtOnce = 256;
/// A sleep that begins so soon after a look is as if it began with it: half of what a wake-up may take anyway.
constexpr Duration kAtOnce = std::chrono::microseconds(100);
/// The places of a queue that are given up together.
constexpr std::size_t kForgottenAtOnce = 4'096;

timespec to_timespec(Duration duration) {
  const auto ns = std::max<std::int64_t>(duration.count(), 0);
  return {.tv_sec = static_cast<time_t>(ns / 1'000'000'000), .tv_nsec = static_cast<long>(ns % 1'000'000'000)};
}

/// Waits at most `timeout`, or without one until there is an event.
int wait_for_events(int epoll, std::vector<epoll_event>& events, std::optional<Duration> timeout) {
  static std::atomic<bool> has_nanoseconds = true;  // Linux 5.11
  const int most = static_cast<int>(events.size());
  if (has_nanoseconds.load(std::memory_order_relaxed)) {
    const timespec limit = to_timespec(timeout.value_or(Duration()));
    const int count = ::epoll_pwait2(epoll, events.data(), most, timeout ? &limit : nullptr, nullptr);
    if (count >= 0 || (errno != ENOSYS && errno != EPERM))
      return count;  // old sandboxes answer EPERM to system calls that they do not know
    has_nanoseconds.store(false, std::memory_order_relaxed);
  }
  if (!timeout) return ::epoll_wait(epoll, events.data(), most, -1);
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(std::max(*timeout, Duration())).count();
  return ::epoll_wait(epoll, events.data(), most, static_cast<int>(std::min<std::int64_t>(ms, 3'600'000)));
}

/// Ends a wait when the eventfd is written to. The system reports each write to it, read or not, so it is never read;
/// it takes more writes than can ever be made. That it can be written to is not asked for either, which would be
/// reported with each read.
class WakeupWatch final : public Watched {
 public:
  WakeupWatch(LoopImpl& loop, int fd) : Watched(loop) { watch_reading(fd); }

 private:
  void on_ready() override {}
};

/// Calls a function when the eventfd was written to, once for any number of writes.
class EventFdWatch final : public Watched {
 public:
  EventFdWatch(LoopImpl& loop, int fd, std::function<void()> handler)
      : Watched(loop), fd_(fd), handler_(std::move(handler)) {
    watch_reading(fd);
  }

 private:
  void on_ready() override {
    readable_ = false;
    std::uint64_t count = 0;
    if (::read(fd_, &count, sizeof(count)) == sizeof(count)) handler_();
  }

  int fd_;
  std::function<void()> handler_;
};

}  // namespace

void Watched::watch(int fd) {
  loop_.add(*this, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
}

void Watched::watch_reading(int fd) {
  loop_.add(*this, fd, EPOLLIN);
}

void Watched::forget() {
  loop_.dequeue(*this);
  if (fd_ < 0) return;
  ::epoll_ctl(loop_.epoll_.get(), EPOLL_CTL_DEL, std::exchange(fd_, -1), nullptr);
  readable_ = writable_ = false;
}

void Watched::call_soon() {
  loop_.enqueue(*this);
}

LoopImpl::LoopImpl()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wakeup_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      resolver_([this](std::function<void()> work) { post(std::move(work)); }),
      events_(kEvents),
      // Not zeroed, so that pages that are never used take no memory.
      read_buffer_(std::make_unique_for_overwrite<char[]>(kReadBufferBytes)) {
  KVIST_CHECK(epoll_.valid() && wakeup_.valid(), "the process is out of file descriptors: " + error_text(errno));
  wakeup_watch_ = std::make_unique<WakeupWatch>(*this, wakeup_.get());
}

LoopImpl::~LoopImpl() {
  ending = true;
  resolver_.stop();
  // Destroying handlers may queue further ones, so this repeats until none are left.
  while (true) {
    std::vector<std::function<void()>> posted;
    {
      const std::scoped_lock lock(posting_);
      posted.swap(posted_);
    }
    if (posted.empty() && timers_.empty() && to_flush_.empty()) break;
    posted.clear();
    timers_.clear();
    to_flush_.clear();
  }
  if (signals_.valid()) unregister_from(ProcessSignal::kTermination, signals_);
  if (hangups_.valid()) unregister_from(ProcessSignal::kHangup, hangups_);
  signal_watch_.reset();
  hangup_watch_.reset();
  wakeup_watch_.reset();
}

void LoopImpl::run() {
  while (!stopped_.load(std::memory_order_relaxed)) {
    bool more = run_posted();
    run_timers();
    more = call_ready(urgent_, next_urgent_, kUrgentAtOnce) || more;
    more = call_ready(bulk_, next_bulk_, kBulkAtOnce) || more;
    if (stopped_.load(std::memory_order_relaxed)) break;
    wait(!more);
  }
}

void LoopImpl::stop() {
  stopped_.store(true);
  constexpr std::uint64_t kOne = 1;
  (void)!::write(wakeup_.get(), &kOne, sizeof(kOne));
}

void LoopImpl::post(std::function<void()> work) {
  {
    const std::scoped_lock lock(posting_);
    posted_.push_back(std::move(work));
  }
  any_posted_.store(true);
  // The loop sets asleep_ before it checks for work a last time, and the work was added before asleep_ is read here. So
  // one of the two sees the other.
  if (!asleep_.load()) return;
  constexpr std::uint64_t kOne = 1;
  (void)!::write(wakeup_.get(), &kOne, sizeof(kOne));
}

bool LoopImpl::run_posted() {
  if (!any_posted_.exchange(false)) return false;
  std::vector<std::function<void()>> posted;
  {
    const std::scoped_lock lock(posting_);
    posted.swap(posted_);
  }
  for (std::size_t i = 0; i < posted.size(); ++i) {
    if (stopped_.load(std::memory_order_relaxed)) {
      // Remaining work is destroyed with the loop, as if it had been posted after its end.
      const std::scoped_lock lock(posting_);
      posted_.insert(posted_.begin(), std::make_move_iterator(posted.begin() + static_cast<std::ptrdiff_t>(i)),
                     std::make_move_iterator(posted.end()));
      return true;
    }
    const std::function<void()> work = std::move(posted[i]);
    work();
    flush_all();
  }
  return any_posted_.load();
}

void LoopImpl::run_timers() {
  if (timers_.empty()) return;
  const TimePoint at = now();
  while (!stopped_.load(std::memory_order_relaxed)) {
    const std::function<void()> handler = timers_.take_due(at);
    if (!handler) return;
    handler();
    flush_all();
  }
}

bool LoopImpl::call_ready(std::vector<Watched*>& queue, std::size_t& next, std::size_t most) {
  for (std::size_t called = 0; next < queue.size() && called < most; ++next) {
    Watched* const watched = queue[next];
    if (watched == nullptr) continue;
    watched->queued_at_ = Watched::kNone;
    queue[next] = nullptr;
    watched->on_ready();
    flush_all();
    ++called;
    if (stopped_.load(std::memory_order_relaxed)) {
      ++next;
      return true;
    }
  }
  if (next == queue.size()) {
    queue.clear();
    next = 0;
    return false;
  }
  if (next >= kForgottenAtOnce && next * 2 >= queue.size()) forget_called(queue, next);
  return true;
}

// A loop that never gets to the end of its queue would otherwise keep a place for every event that it ever handled.
void LoopImpl::forget_called(std::vector<Watched*>& queue, std::size_t& next) {
  queue.erase(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(next));
  for (std::size_t i = 0; i < queue.size(); ++i) {
    if (queue[i] != nullptr) queue[i]->queued_at_ = i;
  }
  next = 0;
}

void LoopImpl::flush_soon(const std::shared_ptr<Flushed>& connection) {
  if (connection->to_flush_) return;
  connection->to_flush_ = true;
  to_flush_.push_back(connection);
}

// A flush may call handlers, which may write again.
void LoopImpl::flush_all() {
  for (std::size_t i = 0; i < to_flush_.size(); ++i) {
    const std::shared_ptr<Flushed> connection = std::move(to_flush_[i]);
    connection->to_flush_ = false;
    connection->flush();
  }
  to_flush_.clear();
}

void LoopImpl::add(Watched& watched, int fd, std::uint32_t events) {
  watched.fd_ = fd;
  epoll_event event{};
  event.events = events | EPOLLET;
  event.data.ptr = &watched;
  KVIST_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0, error_text(errno));
}

void LoopImpl::enqueue(Watched& watched) {
  if (watched.queued_at_ != Watched::kNone) return;
  watched.queued_urgent_ = watched.urgent();
  std::vector<Watched*>& queue = watched.queued_urgent_ ? urgent_ : bulk_;
  watched.queued_at_ = queue.size();
  queue.push_back(&watched);
}

void LoopImpl::dequeue(Watched& watched) {
  if (watched.queued_at_ == Watched::kNone) return;
  (watched.queued_urgent_ ? urgent_ : bulk_)[watched.queued_at_] = nullptr;
  watched.queued_at_ = Watched::kNone;
}

void LoopImpl::note_events(const epoll_event* events, int count) {
  for (int i = 0; i < count; ++i) {
    Watched& watched = *static_cast<Watched*>(events[i].data.ptr);
    constexpr std::uint32_t kGone = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
    if ((events[i].events & (EPOLLIN | kGone)) != 0 && !std::exchange(watched.readable_, true)) {
      watched.quiet_until_ = looked_;
      watched.came_after_ = std::max(looked_, came_after_);
    }
    if ((events[i].events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) watched.writable_ = true;
    if ((events[i].events & kGone) != 0) watched.hung_up_ = true;
    enqueue(watched);
  }
}

void LoopImpl::wait(bool may_sleep) {
  const TimePoint before = now();
  Duration timeout{};
  bool forever = false;
  if (may_sleep) {
    asleep_.store(true);
    if (!any_posted_.load()) {
      forever = timers_.empty();
      if (!forever) timeout = timers_.next() - before;
    }
  }
  const std::optional<Duration> limit = forever ? std::nullopt : std::optional(timeout);
  const bool sleeps = watches_wakeups_ && (forever || timeout > Duration());
  const int count = sleeps ? sleep(limit) : wait_for_events(epoll_.get(), events_, limit);
  asleep_.store(false);
  note_events(events_.data(), count);
  // If there were more events than were asked for, the others are told the next time.
  if (count >= static_cast<int>(events_.size())) return;
  looked_ = before;
  came_after_ = std::max(came_after_, before);
}

// A loop that sleeps could not have read anything sooner than its first event, which wakes it. So how long it slept is
// nothing that an event may have waited; how long it took to wake up is.
int LoopImpl::sleep(std::optional<Duration> timeout) {
  const TimePoint before = now();
  if (const int count = wait_for_events(epoll_.get(), events_, Duration()); count != 0) return count;
  came_after_ = before;
  const std::optional<RunQueueTime> asleep = run_queue_.read();
  const TimePoint asked = now();
  const int count = wait_for_events(epoll_.get(), events_, timeout);
  const TimePoint after = now();
  // A stop or a preemption between the look and the sleep, or a stop that broke the sleep off, is no time asleep.
  if (count < 0 || asked - before > kAtOnce) return count;
  came_after_ = std::max(before, woken_at(asleep, run_queue_.read(), after).value_or(before));
  return count;
}

void LoopImpl::on_termination(std::function<void()> handler) {
  termination_handlers_.push_back(std::move(handler));
  if (signals_.valid()) return;
  signals_ = register_for(ProcessSignal::kTermination);
  signal_watch_ = std::make_unique<EventFdWatch>(*this, signals_.get(), [this] { on_signal(); });
}

void LoopImpl::on_hangup(std::function<void()> handler) {
  hangup_handlers_.push_back(std::move(handler));
  if (hangups_.valid()) return;
  hangups_ = register_for(ProcessSignal::kHangup);
  hangup_watch_ = std::make_unique<EventFdWatch>(*this, hangups_.get(), [this] {
    const auto handlers = hangup_handlers_;  // one may add another
    for (const auto& each : handlers) each();
  });
}

void LoopImpl::on_repeated_termination(std::function<void()> handler) {
  repeated_termination_handlers_.push_back(std::move(handler));
}

void LoopImpl::on_signal() {
  const TimePoint at = now();
  if (terminated_ && at - *terminated_ < EventLoop::kOneSignal) return;
  const auto handlers = terminated_ ? repeated_termination_handlers_ : std::exchange(termination_handlers_, {});
  if (!terminated_) terminated_ = at;
  for (const auto& handler : handlers) handler();
}

}  // namespace kvist::net
