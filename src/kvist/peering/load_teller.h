// What this gateway tells the others of its requests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/dispatch/fleet.h"
#include "kvist/peering/message.h"
#include "kvist/routing/load_observer.h"
#include "kvist/routing/router.h"

namespace kvist::peering {

/// When the others are told what.
struct TellingTimes {
  Duration batch = std::chrono::milliseconds(5);  ///< the longest time that an event waits for others to go with it
  Duration progress = std::chrono::milliseconds(200);  ///< between looks at how far the answers are
  Duration state = std::chrono::seconds(1);            ///< between states: so long a lost message has an effect
};

/// Collects what becomes of this gateway's requests into messages. A state comes at fixed intervals, also when there is
/// nothing to tell, so that silence means that the gateway is gone. Memory: one entry per request at a worker, and the
/// events of one batch. Threads: the router's.
class LoadTeller final : public routing::LoadObserver {
 public:
  /// 200 messages a second with a batch of 5 ms, and word of one takes at most a second and its way.
  static constexpr std::size_t kKeptTimes = 1'024;

  /// Tells of the requests of `router` from here on. Requires: both outlive this object; no request is at a worker.
  LoadTeller(std::string gateway, std::uint64_t run, TellingTimes times, routing::Router& router,
             const dispatch::Fleet& fleet);
  ~LoadTeller() override;

  [[nodiscard]] std::uint64_t on_routed(routing::RequestHandle handle, const routing::RoutedRequest& request,
                                        std::uint32_t known_tokens, std::uint64_t session, TimePoint now) override;
  void on_first_token(const routing::RoutedRequest& request) override;
  void on_finished(const routing::RoutedRequest& request, bool completed) override;

  /// Has `handler` called when there is something to say after nothing was. It may call due() alone.
  void on_news(std::function<void()> handler) { on_news_ = std::move(handler); }
  /// Has `handler` called for each request of this gateway that goes to a worker, with its known tokens. It may book
  /// requests with the router.
  void on_own(std::function<void(const routing::RoutedRequest&, std::uint32_t, TimePoint)> handler) {
    on_own_ = std::move(handler);
  }
  /// When there will be something to say. Ensures: an event that came since the last call is due within
  /// TellingTimes::batch of `now`.
  [[nodiscard]] TimePoint due(TimePoint now);
  /// Whether the next take() has a state.
  [[nodiscard]] bool state_is_due(TimePoint now) const { return now >= next_state_; }
  /// Puts this into the next message.
  void say(const Event& event) { add(event); }
  /// When take() returned a message, if it was one of the last kKeptTimes of this run.
  [[nodiscard]] std::optional<TimePoint> sent(std::uint64_t run, std::uint64_t sequence) const;
  /// The messages that are due, in their order; mostly one or none.
  [[nodiscard]] std::vector<std::string> take(TimePoint now);
  /// The last message: the gateway ends.
  [[nodiscard]] std::string goodbye();
  /// Somebody heard nothing of what was said up to now: the next take() has a state.
  void repeat() { next_state_ = TimePoint{}; }

  [[nodiscard]] std::uint64_t messages() const { return sequence_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  struct Told {
    routing::RequestHandle handle;
    std::uint64_t output_tokens = 0;
    // What routing does not keep of it.
    std::uint32_t known_tokens = 0;
    std::uint64_t session = 0;
  };
  [[nodiscard]] Routed describe(AttemptId attempt, const Told& told, const routing::RoutedRequest& request) const;
  void add(const Event& event);
  void add_progress();
  void add_state();
  void close_message();

  std::string gateway_;
  std::uint64_t run_;
  TellingTimes times_;
  routing::Router* router_;
  const dispatch::Fleet* fleet_;
  std::function<void()> on_news_ = [] {};
  std::function<void(const routing::RoutedRequest&, std::uint32_t, TimePoint)> on_own_;
  std::map<AttemptId, Told> requests_;
  AttemptId last_;
  std::string events_;  // of the message to come
  std::size_t count_ = 0;
  std::vector<std::string> closed_;  // messages that became full
  std::optional<TimePoint> batch_due_;
  TimePoint next_progress_{};
  TimePoint next_state_{};
  std::uint64_t sequence_ = 0;
  std::array<TimePoint, kKeptTimes> sent_ = {};  // by sequence modulo its size
  std::uint64_t sent_until_ = 0;                 // the last sequence that has its time there
  std::uint64_t bytes_ = 0;
};

}  // namespace kvist::peering
