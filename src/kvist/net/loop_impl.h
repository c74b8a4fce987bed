// Private to net: what an EventLoop is made of.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/name_resolver.h"
#include "kvist/net/socket.h"
#include "kvist/net/timer_queue.h"

namespace kvist::net {

class LoopImpl;

/// A file descriptor on a loop. The system tells each change once (edge-triggered), so what became possible is
/// remembered here until it has been tried and found exhausted. Leaves the loop when it is destroyed. Loop thread only.
class Watched {
 public:
  explicit Watched(LoopImpl& loop) : loop_(loop) {}
  virtual ~Watched() { forget(); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 protected:
  /// `fd` stays open until forget().
  void watch(int fd);
  void forget();
  /// Calls on_ready() from the loop, soon.
  void call_soon();
  /// It may have become readable or writable; called from the loop.
  virtual void on_ready() = 0;
  /// What waits for it is a new request or the beginning of an answer, and not one chunk of many.
  [[nodiscard]] virtual bool urgent() const { return true; }
  [[nodiscard]] LoopImpl& loop() const { return loop_; }

  bool readable_ = false;
  bool writable_ = false;
  bool hung_up_ = false;  ///< the peer has closed its side, or the connection broke: there is something to read always

 private:
  friend class LoopImpl;
  static constexpr std::size_t kNone = ~std::size_t{0};

  LoopImpl& loop_;
  int fd_ = -1;
  std::size_t queued_at_ = kNone;  // in one of the loop's two queues
  bool queued_urgent_ = false;
};

/// Bytes that go out when the loop has called a handler to its end.
class Flushed {
 public:
  virtual ~Flushed() = default;

 protected:
  virtual void flush() = 0;
  bool to_flush_ = false;

 private:
  friend class LoopImpl;
};

/// One epoll set, timers and posted work. What is ready is called in two turns: first new requests and the beginnings
/// of answers, then chunks of streams under way, a few at a time, so that a loop that is behind lets newcomers through.
/// After each handler what it wrote goes out: one write per connection, however many pieces.
class LoopImpl {
 public:
  LoopImpl();
  ~LoopImpl();
  LoopImpl(const LoopImpl&) = delete;
  LoopImpl& operator=(const LoopImpl&) = delete;

  void run();
  /// Thread-safe, both.
  void stop();
  void post(std::function<void()> work);

  /// Its flush() is called after the handler under way. Held until then.
  void flush_soon(const std::shared_ptr<Flushed>& connection);
  /// What every read goes into: valid until the handler that was given it returns.
  [[nodiscard]] char* read_buffer() { return read_buffer_.get(); }
  static constexpr std::size_t kReadBufferBytes = 128U << 10;

  [[nodiscard]] TimerQueue& timers() { return timers_; }
  [[nodiscard]] NameResolver& resolver() { return resolver_; }
  void on_termination(std::function<void()> handler);

  bool ending = false;  ///< destruction has begun: objects dying inside queued handlers must not start anything

 private:
  friend class Watched;

  void add(Watched& watched, int fd);
  void enqueue(Watched& watched);
  void dequeue(Watched& watched);
  void note_events(const epoll_event* events, int count);
  /// Calls those in the queue from `next` on, at most so many; whether any is left.
  bool call_ready(std::vector<Watched*>& queue, std::size_t& next, std::size_t most);
  bool run_posted();
  void run_timers();
  void flush_all();
  void wait(bool may_sleep);
  void on_signal();

  UniqueFd epoll_;
  UniqueFd wakeup_;  // an eventfd
  std::unique_ptr<Watched> wakeup_watch_;
  std::unique_ptr<Watched> signal_watch_;
  UniqueFd signals_;
  TimerQueue timers_;
  NameResolver resolver_;
  std::vector<epoll_event> events_;
  std::unique_ptr<char[]> read_buffer_;

  std::vector<Watched*> urgent_;  // null: gone meanwhile
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
  bool terminated_ = false;
};

}  // namespace kvist::net
