#include "kvist/gateway/shared_decisions.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

constexpr const char* kComponent = "peers";
constexpr std::string_view kMode = "mode.";
constexpr std::string_view kHold = "hold.";
constexpr std::size_t kKeyDigits = 16;
constexpr auto kTryAgain = std::chrono::seconds(1);
constexpr std::array kHolds = {SharedHold::kFree, SharedHold::kCordoned, SharedHold::kDrained, SharedHold::kRemoved};

}  // namespace

std::string_view to_string(SharedHold hold) {
  switch (hold) {
    case SharedHold::kFree:
      return "free";
    case SharedHold::kCordoned:
      return "cordoned";
    case SharedHold::kDrained:
      return "drained";
    case SharedHold::kRemoved:
      return "removed";
  }
  return "free";
}

SharedDecisions::SharedDecisions(net::EventLoop& loop, PeerLink* link, ServedModels& models)
    : link_(link), models_(&models), timer_(loop) {
  if (link_ == nullptr) return;
  link_->on_row([this](const std::string& key, const std::optional<std::string>& value) { on_row(key, value); });
  try_again();
}

void SharedDecisions::tell_mode(const std::string& model, spec::RoutingMode mode) {
  if (link_ != nullptr) link_->put_row(fmt::format("{}{}", kMode, peer_key(model)), std::string(to_string(mode)));
}

void SharedDecisions::tell_hold(const std::string& model, const std::string& worker, SharedHold hold) {
  if (link_ == nullptr) return;
  link_->put_row(fmt::format("{}{}.{}", kHold, peer_key(model), peer_key(worker)),
                 fmt::format("{} {}", to_string(hold), worker));
}

// Rows are never deleted by a gateway. If a person does, what was decided stays where it is known.
void SharedDecisions::on_row(const std::string& key, const std::optional<std::string>& value) {
  if (!value) {
    waiting_.erase(key);
  } else if (!carry_out(key, *value) && waiting_.size() < kMostWaiting) {
    waiting_[key] = *value;
  }
}

void SharedDecisions::try_again() {
  std::erase_if(waiting_, [this](const auto& row) { return carry_out(row.first, row.second); });
  timer_.arm(net::now() + kTryAgain, [this] { try_again(); });
}

bool SharedDecisions::carry_out(const std::string& key, const std::string& value) {
  const bool is_mode = key.starts_with(kMode);
  if (!is_mode && !key.starts_with(kHold)) {
    ++unreadable_;
    return true;
  }
  const std::string_view model_key = std::string_view(key).substr(kMode.size()).substr(0, kKeyDigits);
  for (ServedModel* const model : models_->all()) {
    if (model->leaves || peer_key(model->parts.spec.model) != model_key) continue;
    if (is_mode) {
      set_mode(*model, value);
    } else {
      hold(*model, value);
    }
    return true;
  }
  return false;
}

void SharedDecisions::set_mode(ServedModel& model, const std::string& value) {
  const auto mode = spec::parse_live_routing_mode(value);
  if (!mode) {
    ++unreadable_;
    return;
  }
  routing::Router& router = model.parts.router;
  if (*mode == router.mode()) return;
  ++followed_;
  telemetry::log_info(kComponent, fmt::format("{}: routing mode {} -> {}, as decided at another gateway",
                                              model.parts.spec.model, to_string(router.mode()), to_string(*mode)));
  router.set_mode(*mode);
}

void SharedDecisions::hold(ServedModel& model, const std::string& value) {
  const std::size_t space = value.find(' ');
  const std::string word = value.substr(0, space);
  const std::string name = space == std::string::npos ? std::string() : value.substr(space + 1);
  for (const SharedHold hold : kHolds) {
    if (name.empty() || to_string(hold) != word) continue;
    std::optional<dispatch::WorkerHold> wanted = dispatch::WorkerHold::kRemoved;
    if (hold == SharedHold::kFree) wanted.reset();
    if (hold == SharedHold::kCordoned) wanted = dispatch::WorkerHold::kCordoned;
    if (!model.changes.follow(name, wanted)) return;
    ++followed_;
    return telemetry::log_info(kComponent, fmt::format("{} is {}, as decided at another gateway", name, word));
  }
  ++unreadable_;
}

}  // namespace kvist::gateway
