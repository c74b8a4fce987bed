// Private to net: the implementation of EventLoop.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_date.h"
#include "kvist/net/name_resolver.h"
#include "kvist/net/run_queue.h"
#include "kvist/net/socket.h"
#include "kvist/net/timer_queue.h"

namespace kvist::net {

class LoopImpl;

/// A file descriptor on a loop. The system reports each change once (edge-triggered), so this class remembers what is
/// possible until an attempt shows that it no longer is. The destructor removes it from the loop. Threads: the loop's.
class Watched {
 public:
  explicit Watched(LoopImpl& loop) : loop_(loop) {}
  virtual ~Watched() { forget(); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 protected:
  /// Requires: `fd` stays open until forget().
  void watch(int fd);
  /// The same for one that is only read: that it can be written to is not told.
  void watch_reading(int fd);
  void forget();
  /// Calls on_ready() from the loop, soon.
  void call_soon();
  /// Called from the loop when the descriptor may have become readable or writable.
  virtual void on_ready() = 0;
  /// Whether a new request or the beginning of an answer is expected, and not a further chunk of a stream.
  [[nodiscard]] virtual bool urgent() const { return true; }
  [[nodiscard]] LoopImpl& loop() const { return loop_; }
  /// What can be read now was not there yet at this instant: the loop looked after it, and saw nothing.
  [[nodiscard]] TimePoint quiet_until() const { return quiet_until_; }
  /// What can be read now came after this instant, which is not before quiet_until(): while the loop slept since then,
  /// the first of it would have woken it. Known of a loop that watches its wake-ups; otherwise quiet_until().
  [[nodiscard]] TimePoint came_after() const { return came_after_; }

  bool readable_ = false;
  bool writable_ = false;
  bool hung_up_ =
      false;  ///< the peer has closed its side, or the connection broke, so that reading always has a result

 private:
  friend class LoopImpl;
  static constexpr std::size_t kNone = ~std::size_t{0};

  LoopImpl& loop_;
  int fd_ = -1;
  std::size_t queued_at_ = kNone;  // in one of the loop's two queues
  bool queued_urgent_ = false;
  TimePoint quiet_until_;
  TimePoint came_after_;
};

/// Something with bytes to send, which are sent when the present handler has returned.
class Flushed {
 public:
  virtual ~Flushed() = default;

 protected:
  virtual void flush() = 0;
  bool to_flush_ = false;

 private:
  friend class LoopImpl;
};

/// One epoll set, timers and posted work. Ready descriptors are handled in two turns: first new requests and the
/// beginnings of answers, then chunks of streams, a few at a time, so that a loop that is behind does not delay new
/// requests. After each handler the bytes that it wrote are sent, with one write per connection.
class LoopImpl {
 public:
  LoopImpl();
  ~LoopImpl();
  LoopImpl(const LoopImpl&) = delete;
  LoopImpl& operator=(const LoopImpl&) = delete;

  void run();
  /// Threads: any, also for post().
  void stop();
  void post(std::function<void()> work);

  /// Calls flush() of the connection after the present handler. Keeps it alive until then.
  void flush_soon(const std::shared_ptr<Flushed>& connection);
  /// The buffer of all reads. Its content is valid until the handler that got it returns.
  [[nodiscard]] char* read_buffer() { return read_buffer_.get(); }
  static constexpr std::size_t kReadBufferBytes = 128U << 10;
  /// Gives a connection that begins to send a queue with memory, if one is spare, and takes it back when all is sent.
  /// So a connection has a queue of its own only while its socket is busy, and the memory of what is sent meanwhile is
  /// in the processor's cache.
  void lend_queue(std::string& queue) {
    if (queue.capacity() < spare_queue_.capacity()) queue.swap(spare_queue_);
  }
  /// Requires: it is empty. Ensures: it has no memory.
  void take_back_queue(std::string& queue) {
    if (queue.capacity() > spare_queue_.capacity() && queue.capacity() <= kSpareQueueBytes) queue.swap(spare_queue_);
    queue = {};
  }

  /// The field Date of an answer that is sent now.
  [[nodiscard]] std::string_view date_line() { return date_.line(std::time(nullptr)); }

  /// From now on it is known when the loop was woken (Watched::came_after()), which costs three system calls for each
  /// time that it sleeps.
  void watch_wakeups() { watches_wakeups_ = true; }

  [[nodiscard]] TimerQueue& timers() { return timers_; }
  [[nodiscard]] NameResolver& resolver() { return resolver_; }
  void on_termination(std::function<void()> handler);
  void on_hangup(std::function<void()> handler);
  void on_repeated_termination(std::function<void()> handler);

  bool ending =
      false;  ///< destruction has begun; objects that are destroyed with queued handlers must not start anything

 private:
  friend class Watched;

  void add(Watched& watched, int fd, std::uint32_t events);
  void enqueue(Watched& watched);
  void dequeue(Watched& watched);
  void note_events(const epoll_event* events, int count);
  /// Handles at most `most` elements of the queue from `next` on. Returns whether any are left.
  bool call_ready(std::vector<Watched*>& queue, std::size_t& next, std::size_t most);
  static void forget_called(std::vector<Watched*>& queue, std::size_t& next);
  bool run_posted();
  void run_timers();
  void flush_all();
  void wait(bool may_sleep);
  int sleep(std::optional<Duration> timeout);
  void on_signal();

  UniqueFd epoll_;
  UniqueFd wakeup_;  // an eventfd
  std::unique_ptr<Watched> wakeup_watch_;
  std::unique_ptr<Watched> signal_watch_;
  UniqueFd signals_;
  std::unique_ptr<Watched> hangup_watch_;
  UniqueFd hangups_;
  TimerQueue timers_;
  NameResolver resolver_;
  std::vector<epoll_event> events_;
  TimePoint looked_ =
      now();  // an instant after which the loop asked for events, got all, and has not asked again but once
  bool watches_wakeups_ = false;
  RunQueue run_queue_;
  TimePoint came_after_ = now();  // what the next look shows, or what woke the loop before it, came after this instant
  std::unique_ptr<char[]> read_buffer_;
  static constexpr std::size_t kSpareQueueBytes = 16U << 10;
  std::string spare_queue_;  // empty, with memory
  HttpDate date_;

  std::vector<Watched*> urgent_;  // null: destroyed since it was queued
  std::size_t next_urgent_ = 0;
  std::vector<Watched*> bulk_;
  std::size_t next_bulk_ = 0;
  std::vector<std::shared_ptr<Flushed>> to_flush_;

  std::mutex posting_;
  std::vector<std::function<void()>> posted_;
  std::atomic<bool> any_posted_ = false;
  std::atomic<bool> asleep_ = false;
  std::atomic<bool> stopped_ = false;

  std::vector<std::function<void()>> termination_handlers_;
  std::vector<std::function<void()>> hangup_handlers_;
  std::vector<std::function<void()>> repeated_termination_handlers_;
  std::optional<TimePoint> terminated_;  // when the first signal came
};

}  // namespace kvist::net
