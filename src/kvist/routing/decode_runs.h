// Requests whose answers go on by one token with each step of their worker, advanced together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/routing/routed_request.h"

namespace kvist::routing {

/// For a caller that is told of a worker's steps, and not of each token. A request in a run is touched only when the
/// length of its answer comes to another bin (OutputProgress), every fourteenth token of an answer of 840. While it is
/// in the run, RoutedRequest::output_tokens is as of the last time. Threads: the router's.
class DecodeRuns {
 public:
  explicit DecodeRuns(std::size_t workers) : runs_(workers) {}

  /// Requires: the request is not in a run, and stays where it is until it has left.
  void join(RoutedRequest& request);
  /// Makes the request's output_tokens right. Does nothing if it is in no run.
  void leave(RoutedRequest& request);
  /// The requests in the worker's run, in the order in which they joined.
  [[nodiscard]] std::span<const RequestId> ids(WorkerId worker) const { return runs_[worker.value()].ids; }

  /// The worker's step is over: each request in its run has one token more. on_moved() has to follow for all of them.
  void on_step(WorkerId worker) { ++runs_[worker.value()].steps; }
  /// Calls `visit(from, to)` with the former and the present length of each answer that came to another bin with this
  /// step, among those with places from `first` on and before `last` in ids().
  template <class Visit>
  void on_moved(WorkerId worker, std::size_t first, std::size_t last, Visit visit) {
    Run& run = runs_[worker.value()];
    for (std::size_t i = first; i < last; ++i) {
      if (run.due[i] > run.steps) continue;
      RoutedRequest& request = *run.requests[i];
      const std::uint64_t from = request.output_tokens;
      update(run, request);
      run.due[i] = next_bin(run, request);
      visit(from, request.output_tokens);
    }
  }

 private:
  struct Run {
    std::uint64_t steps = 0;
    // In the same order. A step reads only the first, in which numbers lie together.
    std::vector<std::uint64_t> due;  ///< the step that takes the request to another bin
    std::vector<RequestId> ids;
    std::vector<RoutedRequest*> requests;
  };
  static void update(const Run& run, RoutedRequest& request);
  [[nodiscard]] static std::uint64_t next_bin(const Run& run, const RoutedRequest& request);

  std::vector<Run> runs_;  // by WorkerId
};

}  // namespace kvist::routing
