// The interface by which the I/O loops talk to routing, which may be on another thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/dispatch/dispatcher.h"
#include "kvist/dispatch/request_life.h"

namespace kvist::gateway {

/// One loop's access to the dispatcher. Calls take effect in order. Answers arrive on the loop's thread, from within
/// the call or later; none arrive once the channel is destroyed. Threads: the loop's.
class RoutingChannel {
 public:
  using Started = std::function<void(const dispatch::Started&)>;
  /// Whether the client has left; each request has one of its own. Threads: any.
  using Left = std::shared_ptr<const std::atomic<bool>>;
  using Rerouted = std::function<void(const std::optional<routing::Decision>&)>;

  RoutingChannel() = default;
  virtual ~RoutingChannel() = default;
  RoutingChannel(const RoutingChannel&) = delete;
  RoutingChannel& operator=(const RoutingChannel&) = delete;

  /// Whether start() would admit a request, as far as is known here. It is asked before a request is read, to save that
  /// work.
  [[nodiscard]] virtual bool has_room() const = 0;
  /// Dispatcher::start_or_hold(): the answer of a request that is held comes when it is held no longer.
  virtual void start(dispatch::RequestProfile profile, Left left, Started then) = 0;
  /// The client of a request has left, for which start() was called with `left`. If it is held, it is not started, and
  /// its answer is kCancelled; otherwise nothing happens.
  virtual void on_left(const Left& left) = 0;
  /// Reports an attempt that failed, or a worker that stalled, as RequestLife does, and asks for another worker.
  virtual void reroute(dispatch::DispatchHandle request, const dispatch::LifeActions& actions, Rerouted then) = 0;
  /// Reports a failure within a stream as RequestLife does. There is no answer.
  virtual void on_trouble(dispatch::DispatchHandle request, const dispatch::LifeActions& actions) = 0;
  virtual void on_first_token(routing::RequestHandle attempt, TimePoint at) = 0;
  virtual void on_progress(routing::RequestHandle attempt, std::uint64_t tokens, TimePoint at) = 0;
  virtual void on_whole_answer(routing::RequestHandle attempt, const routing::WholeAnswer& answer) = 0;
  virtual void on_usage(routing::RequestHandle attempt, std::uint64_t prompt_tokens, std::uint64_t cached_tokens) = 0;
  /// Whether the answer is read: Dispatcher::on_paused() and on_resumed().
  virtual void on_reading(dispatch::DispatchHandle request, bool reads) = 0;
  virtual void finish(dispatch::DispatchHandle request, dispatch::Outcome outcome) = 0;
  /// A worker failed a request. The call has its health checked.
  virtual void doubt(WorkerId worker) = 0;
};

/// The channel for the routing thread itself. Calls are carried out at once.
class LocalChannel final : public RoutingChannel {
 public:
  /// Requires: the dispatcher outlives this object; on_doubt() is called before the first request.
  explicit LocalChannel(dispatch::Dispatcher& dispatcher) : dispatcher_(&dispatcher) {}
  void on_doubt(std::function<void(WorkerId)> handler) { doubt_ = std::move(handler); }
  /// `handler` is called when has_room() has changed.
  void on_room(std::function<void(bool)> handler) { room_ = std::move(handler); }

  [[nodiscard]] bool has_room() const override { return dispatcher_->has_room(); }
  void start(dispatch::RequestProfile profile, Left left, Started then) override;
  void on_left(const Left& left) override;
  void reroute(dispatch::DispatchHandle request, const dispatch::LifeActions& actions, Rerouted then) override;
  void on_trouble(dispatch::DispatchHandle request, const dispatch::LifeActions& actions) override;
  void on_first_token(routing::RequestHandle attempt, TimePoint at) override;
  void on_progress(routing::RequestHandle attempt, std::uint64_t tokens, TimePoint at) override;
  void on_whole_answer(routing::RequestHandle attempt, const routing::WholeAnswer& answer) override;
  void on_usage(routing::RequestHandle attempt, std::uint64_t prompt_tokens, std::uint64_t cached_tokens) override;
  void on_reading(dispatch::DispatchHandle request, bool reads) override;
  void finish(dispatch::DispatchHandle request, dispatch::Outcome outcome) override;
  void doubt(WorkerId worker) override { doubt_(worker); }
  /// Dispatcher::release(). To be called several times a second, beside the calls above.
  void release();
  /// The gateway waits no longer: the requests that are held are refused.
  void refuse_held(const Error& error);

 private:
  struct Held {
    Left left;
    Started then;
  };
  void answer(std::vector<dispatch::Released> released);
  void look_at_room();

  dispatch::Dispatcher* dispatcher_;
  std::function<void(WorkerId)> doubt_ = [](WorkerId) {};
  std::function<void(bool)> room_ = [](bool) {};
  bool had_room_ = true;
  std::map<dispatch::HoldId, Held> held_;
  std::map<Left, dispatch::HoldId> held_of_;  // by client
};

}  // namespace kvist::gateway
