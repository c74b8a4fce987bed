#include "kvist/dashboard/service/load_control.h"

#include <cmath>
#include <utility>

namespace kvist::dashboard {
namespace {

LoadState state_of(const loadgen::ControlledLoad& load) {
  const loadgen::LoadView view = load.view();
  const loadgen::ClientLoad client = load.client_load();
  LoadState state{.state = view.state,
                  .open = view.open,
                  .concurrency = view.concurrency,
                  .rate_per_s = view.rate_per_s,
                  .seed = view.seed,
                  .started = view.started,
                  .in_flight = view.in_flight,
                  .totals = view.totals};
  if (!state.is_idle()) {
    state.loop_delay_p99_ms = client.loop_delay_p99_ms;
    state.loop_delay_max_ms = client.loop_delay_max_ms;
  }
  return state;
}

Error nobody() {
  return {ErrorCode::kUnavailable, "there is no load to control now"};
}

}  // namespace

LoadControl::LoadControl(net::EventLoop& loop, std::shared_ptr<loadgen::LoadWatch> watch, LoadPlan plan)
    : loop_(loop), watch_(std::move(watch)), plan_(plan), loads_(plan.begun) {}

void LoadControl::run(Change change, Done done) {
  const auto answer = std::make_shared<Done>(std::move(done));
  const bool posted = watch_ && watch_->post([this, answer, change = std::move(change),
                                              alive = std::weak_ptr(alive_)](loadgen::ControlledLoad& load) {
    auto made = change(load);
    const auto still = alive.lock();
    if (!still) return;
    loop_.post([answer, alive, made = std::move(made)]() mutable {
      if (alive.lock()) (*answer)(std::move(made));
    });
  });
  if (!posted) (*answer)(std::unexpected(nobody()));
}

void LoadControl::start(const StartLoad& order, Done done) {
  if (order.concurrency) plan_.concurrency = *order.concurrency;
  if (order.rate_per_s) plan_.rate_per_s = *order.rate_per_s > 0 ? order.rate_per_s : std::nullopt;
  const LoadPlan plan = plan_;
  const std::uint64_t seed = plan_.seed + loads_;
  ++loads_;
  run(
      [plan, seed](loadgen::ControlledLoad& load) -> Result<void> {
        const loadgen::LoadView view = load.view();
        if (view.replays) return load.start(plan.concurrency, seed);
        if (!view.open) return load.start_with(plan.concurrency, seed, {.max_start_rate = plan.rate_per_s.value_or(0)});
        const double rate = plan.rate_per_s.value_or(1);
        const auto per_minute = static_cast<std::uint32_t>(std::lround(std::max(1.0, 60 * rate)));
        return load.start_with(per_minute, seed, {.rate = rate});
      },
      std::move(done));
}

void LoadControl::stop(bool drain, Done done) {
  run(
      [drain](loadgen::ControlledLoad& load) -> Result<void> {
        if (load.view().state == "idle") return fail(ErrorCode::kInvalidArgument, "nothing runs that could be stopped");
        load.stop(drain, {});
        return {};
      },
      std::move(done));
}

void LoadControl::set_concurrency(std::uint32_t concurrency, Done done) {
  plan_.concurrency = concurrency;
  run(
      [concurrency](loadgen::ControlledLoad& load) -> Result<void> {
        if (load.view().state != "running") return {};  // for the next start
        return load.change({.concurrency = concurrency});
      },
      std::move(done));
}

void LoadControl::set_rate(double rate_per_s, Done done) {
  plan_.rate_per_s = rate_per_s > 0 ? std::optional(rate_per_s) : std::nullopt;
  run(
      [rate_per_s](loadgen::ControlledLoad& load) -> Result<void> {
        const loadgen::LoadView view = load.view();
        if (view.state != "running") return {};
        if (!view.open) return load.change({.max_start_rate = rate_per_s});
        if (!(rate_per_s > 0)) return fail(ErrorCode::kInvalidArgument, "rate_per_s: an open load needs more than 0");
        return load.change({.rate = rate_per_s});
      },
      std::move(done));
}

void LoadControl::poll(std::function<void(LoadState state, workload::LoadBatch batch)> done) {
  if (!watch_ || polling_) return;
  polling_ = watch_->post([this, done = std::move(done), alive = std::weak_ptr(alive_)](loadgen::ControlledLoad& load) {
    // Shared, because a function has to be copyable.
    const auto batch = std::make_shared<workload::LoadBatch>();
    *batch = load.take_batch();
    const LoadState state = state_of(load);
    const auto still = alive.lock();
    if (!still) return;
    loop_.post([this, done, state, batch, alive] {
      if (!alive.lock()) return;
      polling_ = false;
      done(state, std::move(*batch));
    });
  });
}

}  // namespace kvist::dashboard
