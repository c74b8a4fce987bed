#include "kvist/net/termination_signal.h"

#include <sys/eventfd.h>
#include <unistd.h>
#include <csignal>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>

#include "kvist/base/check.h"

namespace kvist::net {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM};

// Read by the signal handler, and therefore lock-free atomics. 0 is a free entry, otherwise the descriptor plus one.
std::array<std::atomic<int>, 64> registered;
static_assert(std::atomic<int>::is_always_lock_free);

std::mutex registering;
std::size_t registrations = 0;
std::array<struct sigaction, kSignals.size()> before;

void on_signal(int) {
  const int saved = errno;
  constexpr std::uint64_t kOne = 1;
  for (const std::atomic<int>& slot : registered) {
    if (const int fd = slot.load() - 1; fd >= 0) (void)!::write(fd, &kOne, sizeof(kOne));
  }
  errno = saved;
}

}  // namespace

UniqueFd register_for_termination() {
  UniqueFd fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  const std::scoped_lock lock(registering);
  for (std::atomic<int>& slot : registered) {
    int free = 0;
    if (!slot.compare_exchange_strong(free, fd.get() + 1)) continue;
    if (registrations++ == 0) {
      struct sigaction action{};
      action.sa_handler = on_signal;
      action.sa_flags = SA_RESTART;
      for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &before[i]);
    }
    return fd;
  }
  KVIST_CHECK(registrations < registered.size(), "more loops wait for the end of the process than there are places");
  return fd;
}

void unregister_from_termination(const UniqueFd& fd) {
  const std::scoped_lock lock(registering);
  for (std::atomic<int>& slot : registered) {
    int held = fd.get() + 1;
    if (!slot.compare_exchange_strong(held, 0)) continue;
    if (--registrations > 0) return;
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before[i], nullptr);
    return;
  }
}

}  // namespace kvist::net
