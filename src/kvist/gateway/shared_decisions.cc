#include "kvist/gateway/shared_decisions.h"

#include <fmt/format.h>

#include <utility>

#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

constexpr const char* kComponent = "peers";
constexpr std::string_view kModeRow = "mode.";
constexpr std::string_view kHoldRow = "hold.";
constexpr std::size_t kKeyDigits = 16;
constexpr auto kModelsPeriod = std::chrono::seconds(1);

/// peer_key() of the model whose row it is.
std::string_view model_of(std::string_view key) {
  static_assert(kModeRow.size() == kHoldRow.size());
  return key.substr(kModeRow.size(), kKeyDigits);
}

}  // namespace

SharedDecisions::SharedDecisions(net::EventLoop& loop, PeerLink* link, ServedModels& models)
    : link_(link), models_(&models), timer_(loop) {
  if (link_ == nullptr) return;
  link_->on_row([this](const std::string& key, const std::optional<std::string>& value) { on_row(key, value); });
  look_later();
}

void SharedDecisions::tell_mode(const std::string& model, spec::RoutingMode mode) {
  if (link_ == nullptr) return;
  const std::string key = fmt::format("{}{}", kModeRow, peer_key(model));
  (void)keep(key, mode);
  link_->put_row(key, std::string(to_string(mode)));
}

void SharedDecisions::tell_hold(const std::string& model, WorkerDecision decision) {
  if (link_ == nullptr) return;
  const std::string key = fmt::format("{}{}.{}", kHoldRow, peer_key(model), peer_key(decision.worker));
  const std::string row = to_row(decision);
  // As the row says it, so that it is no news when it comes back.
  (void)keep(key, read_worker_decision(row).value_or(std::move(decision)));
  link_->put_row(key, row);
}

// Rows are never deleted by a gateway. If a person does, what was decided stays where it was carried out. When the
// connection is back, all rows come again.
void SharedDecisions::on_row(const std::string& key, const std::optional<std::string>& value) {
  if (!value) {
    rows_.erase(key);
    return;
  }
  const std::optional<Decision> decision = read(key, *value);
  if (!decision) {
    ++unreadable_;
    return;
  }
  if (!keep(key, *decision)) return;
  for (ServedModel* const model : models_->all())
    if (!model->leaves && model_of(key) == peer_key(model->parts.spec.model)) carry_out(*model, *decision);
}

bool SharedDecisions::keep(const std::string& key, const Decision& decision) {
  if (const auto row = rows_.find(key); row != rows_.end()) return std::exchange(row->second, decision) != decision;
  if (rows_.size() < kMostRows) {
    rows_.emplace(key, decision);
  } else {
    ++unkept_;
  }
  return true;
}

void SharedDecisions::look_for_models() {
  for (ServedModel* const model : models_->all()) {
    if (model->leaves || model->parts.model_id < next_model_) continue;
    next_model_ = ModelId(model->parts.model_id.value() + 1);
    const std::string name = peer_key(model->parts.spec.model);
    for (const auto& [key, decision] : rows_)
      if (model_of(key) == name) carry_out(*model, decision);
  }
}

void SharedDecisions::look_later() {
  look_for_models();
  timer_.arm(net::now() + kModelsPeriod, [this] { look_later(); });
}

std::optional<SharedDecisions::Decision> SharedDecisions::read(std::string_view key, const std::string& value) {
  if (key.starts_with(kModeRow)) {
    const auto mode = spec::parse_live_routing_mode(value);
    return mode ? std::optional<Decision>(*mode) : std::nullopt;
  }
  if (!key.starts_with(kHoldRow)) return std::nullopt;
  return read_worker_decision(value);
}

void SharedDecisions::carry_out(ServedModel& model, const Decision& decision) {
  if (const auto* const mode = std::get_if<spec::RoutingMode>(&decision)) {
    set_mode(model, *mode);
  } else {
    hold(model, std::get<WorkerDecision>(decision));
  }
}

void SharedDecisions::set_mode(ServedModel& model, spec::RoutingMode mode) {
  routing::Router& router = model.parts.router;
  if (mode == router.mode()) return;
  ++followed_;
  telemetry::log_info(kComponent, fmt::format("{}: routing mode {} -> {}, as decided at another gateway",
                                              model.parts.spec.model, to_string(router.mode()), to_string(mode)));
  router.set_mode(mode);
}

void SharedDecisions::hold(ServedModel& model, const WorkerDecision& decided) {
  if (!model.changes.follow(decided)) return;
  ++followed_;
  telemetry::log_info(kComponent,
                      fmt::format("{} is {}, as decided at another gateway", decided.worker, to_string(decided.hold)));
}

}  // namespace kvist::gateway
