// What the loops ask of routing and tell it, wherever its thread is.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/dispatch/dispatcher.h"
#include "kvist/dispatch/request_life.h"

namespace kvist::gateway {

/// One loop's way to the dispatcher. What is told arrives in order. Answers come on the loop's thread, from within the
/// call or later, and none once the desk is destroyed. Loop thread only.
class RoutingDesk {
 public:
  using Started = std::function<void(const Result<dispatch::Ticket>&)>;
  using Rerouted = std::function<void(const std::optional<routing::Decision>&)>;

  RoutingDesk() = default;
  virtual ~RoutingDesk() = default;
  RoutingDesk(const RoutingDesk&) = delete;
  RoutingDesk& operator=(const RoutingDesk&) = delete;

  /// Whether start() would admit one more, as far as is known here: asked before the work of reading a request is done.
  [[nodiscard]] virtual bool has_room() const = 0;
  /// Dispatcher::start().
  virtual void start(dispatch::RequestProfile profile, Started then) = 0;
  /// What RequestLife reports of an attempt that failed, or of a worker that stands still.
  virtual void reroute(dispatch::DispatchHandle request, const dispatch::LifeActions& actions, Rerouted then) = 0;
  /// What it reports of a stream: nothing comes back.
  virtual void on_trouble(dispatch::DispatchHandle request, const dispatch::LifeActions& actions) = 0;
  virtual void on_first_token(routing::RequestHandle attempt, TimePoint at) = 0;
  virtual void on_progress(routing::RequestHandle attempt, std::uint64_t tokens, TimePoint at) = 0;
  virtual void on_whole_answer(routing::RequestHandle attempt, const routing::WholeAnswer& answer) = 0;
  virtual void on_usage(routing::RequestHandle attempt, std::uint64_t prompt_tokens, std::uint64_t cached_tokens) = 0;
  virtual void finish(dispatch::DispatchHandle request, dispatch::Outcome outcome) = 0;
  /// A worker failed a request: how is it?
  virtual void doubt(WorkerId worker) = 0;
};

/// The desk of the thread that routing is on: each call goes through at once.
class LocalDesk final : public RoutingDesk {
 public:
  /// `doubt`: to be set before the first request. The dispatcher outlives it.
  explicit LocalDesk(dispatch::Dispatcher& dispatcher) : dispatcher_(&dispatcher) {}
  void on_doubt(std::function<void(WorkerId)> handler) { doubt_ = std::move(handler); }

  [[nodiscard]] bool has_room() const override { return dispatcher_->has_room(); }
  void start(dispatch::RequestProfile profile, Started then) override;
  void reroute(dispatch::DispatchHandle request, const dispatch::LifeActions& actions, Rerouted then) override;
  void on_trouble(dispatch::DispatchHandle request, const dispatch::LifeActions& actions) override;
  void on_first_token(routing::RequestHandle attempt, TimePoint at) override;
  void on_progress(routing::RequestHandle attempt, std::uint64_t tokens, TimePoint at) override;
  void on_whole_answer(routing::RequestHandle attempt, const routing::WholeAnswer& answer) override;
  void on_usage(routing::RequestHandle attempt, std::uint64_t prompt_tokens, std::uint64_t cached_tokens) override;
  void finish(dispatch::DispatchHandle request, dispatch::Outcome outcome) override;
  void doubt(WorkerId worker) override { doubt_(worker); }

 private:
  dispatch::Dispatcher* dispatcher_;
  std::function<void(WorkerId)> doubt_ = [](WorkerId) {};
};

}  // namespace kvist::gateway
