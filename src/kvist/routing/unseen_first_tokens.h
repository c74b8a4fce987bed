// The first tokens that nobody sees, those of answers that are not streamed: when they are to be looked at again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/routing/routed_request.h"

namespace kvist::routing {

/// Requests by the instant at which something of them has to be looked at again, and by worker in the order in which
/// they were routed. Threads: one. Memory: bounded by the requests in flight, because those that end are removed.
class UnseenFirstTokens {
 public:
  explicit UnseenFirstTokens(std::size_t workers) : of_worker_(workers) {}

  /// Adds the request, or looks at it at another time. `request` is that of `handle`.
  void await(RequestHandle handle, RoutedRequest& request, TimePoint at) {
    remove(request);
    request.unseen_until = at;
    due_.emplace(std::pair(at, request.decision), handle);
    of_worker_[request.worker.value()].emplace(request.decision, handle);
  }
  /// Does nothing if the request is not here.
  void remove(RoutedRequest& request) {
    if (!request.unseen_until) return;
    due_.erase(std::pair(*request.unseen_until, request.decision));
    of_worker_[request.worker.value()].erase(request.decision);
    request.unseen_until.reset();
  }
  /// The first request that is due by `now`. It stays until it is awaited again or removed, as does that of the next.
  [[nodiscard]] std::optional<RequestHandle> due(TimePoint now) const {
    if (due_.empty() || due_.begin()->first.first > now) return std::nullopt;
    return due_.begin()->second;
  }
  /// The oldest request of the worker that was routed before this one.
  [[nodiscard]] std::optional<RequestHandle> before(const RoutedRequest& request) const {
    const auto& there = of_worker_[request.worker.value()];
    if (there.empty() || there.begin()->first >= request.decision) return std::nullopt;
    return there.begin()->second;
  }
  [[nodiscard]] std::size_t size() const { return due_.size(); }

 private:
  std::map<std::pair<TimePoint, std::uint64_t>, RequestHandle> due_;  // by instant and number of the decision
  std::vector<std::map<std::uint64_t, RequestHandle>> of_worker_;     // by WorkerId; by number of the decision
};

}  // namespace kvist::routing
