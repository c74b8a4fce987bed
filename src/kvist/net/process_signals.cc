#include "kvist/net/process_signals.h"

#include <sys/eventfd.h>
#include <unistd.h>
#include <csignal>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <mutex>

#include "kvist/base/check.h"

namespace kvist::net {
namespace {

/// Who is told of one kind of signal.
struct Listeners {
  // Read by the signal handler, and therefore lock-free atomics. 0 is a free entry, otherwise the descriptor plus one.
  std::array<std::atomic<int>, 64> registered;
  static_assert(std::atomic<int>::is_always_lock_free);

  // Guarded by `registering`.
  std::size_t registrations = 0;
  std::array<struct sigaction, 2> before;  // of the signals, in their order
};

Listeners termination;
Listeners hangup;
std::mutex registering;

Listeners& listeners_of(ProcessSignal kind) {
  return kind == ProcessSignal::kHangup ? hangup : termination;
}

/// The signals of a kind; 0: none.
std::array<int, 2> signals_of(ProcessSignal kind) {
  if (kind == ProcessSignal::kHangup) return {SIGHUP, 0};
  return {SIGINT, SIGTERM};
}

void on_signal(int number) {
  const int saved = errno;
  constexpr std::uint64_t kOne = 1;
  for (const std::atomic<int>& slot : (number == SIGHUP ? hangup : termination).registered) {
    if (const int fd = slot.load() - 1; fd >= 0) (void)!::write(fd, &kOne, sizeof(kOne));
  }
  errno = saved;
}

}  // namespace

UniqueFd register_for(ProcessSignal kind) {
  UniqueFd fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  const std::array<int, 2> signals = signals_of(kind);
  Listeners& listeners = listeners_of(kind);
  const std::scoped_lock lock(registering);
  for (std::atomic<int>& slot : listeners.registered) {
    int free = 0;
    if (!slot.compare_exchange_strong(free, fd.get() + 1)) continue;
    if (listeners.registrations++ > 0) return fd;
    struct sigaction action{};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    for (std::size_t i = 0; i < signals.size(); ++i) {
      if (signals[i] != 0) ::sigaction(signals[i], &action, &listeners.before[i]);
    }
    return fd;
  }
  KVIST_CHECK(listeners.registrations < listeners.registered.size(),
              "more loops wait for a signal of the process than there are places");
  return fd;
}

void unregister_from(ProcessSignal kind, const UniqueFd& fd) {
  const std::array<int, 2> signals = signals_of(kind);
  Listeners& listeners = listeners_of(kind);
  const std::scoped_lock lock(registering);
  for (std::atomic<int>& slot : listeners.registered) {
    int held = fd.get() + 1;
    if (!slot.compare_exchange_strong(held, 0)) continue;
    if (--listeners.registrations > 0) return;
    for (std::size_t i = 0; i < signals.size(); ++i) {
      if (signals[i] != 0) ::sigaction(signals[i], &listeners.before[i], nullptr);
    }
    return;
  }
}

}  // namespace kvist::net
