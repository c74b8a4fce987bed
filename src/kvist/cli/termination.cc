#include "kvist/cli/termination.h"

#include <csignal>
#include <utility>

namespace kvist::cli {

void outlive_terminal(net::EventLoop& loop, std::function<void()> end) {
  std::signal(SIGPIPE, SIG_IGN);
  struct sigaction hangup{};
  if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler == SIG_IGN) return;
  loop.on_hangup(std::move(end));
}

Termination::Termination() {
  outlive_terminal(loop_, [this] { stop_.request_stop(); });
  loop_.on_termination([this] { stop_.request_stop(); });
  thread_ = std::thread([this] { loop_.run(); });
}

Termination::~Termination() {
  loop_.stop();
  thread_.join();
}

}  // namespace kvist::cli
