#include "kvist/cli/termination.h"

namespace kvist::cli {

Termination::Termination() {
  loop_.on_termination([this] { stop_.request_stop(); });
  thread_ = std::thread([this] { loop_.run(); });
}

Termination::~Termination() {
  loop_.stop();
  thread_.join();
}

}  // namespace kvist::cli
