#include "kvist/net/hangup_signal.h"

#include <atomic>
#include <csignal>

namespace kvist::net {
namespace {

std::atomic<bool> came = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void on_hangup(int) {
  came.store(true);
}

}  // namespace

void listen_for_hangup() {
  struct sigaction action{};
  action.sa_handler = on_hangup;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGHUP, &action, nullptr);
}

bool take_hangup() {
  return came.exchange(false);
}

}  // namespace kvist::net
