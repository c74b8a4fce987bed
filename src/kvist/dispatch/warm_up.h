// How many requests a new or restarted worker may have before its first answers have been seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/spec/routing_spec.h"

namespace kvist::dispatch {

/// Of a worker whose process is new nothing is known but that it answers health checks. It is idle, its forecast is the
/// fleet's, and so it attracts every request that no cache keeps elsewhere, by the hundred if there is a queue. If it
/// is slower than the others (a smaller GPU, kernels that are compiled with the first requests), all of these wait
/// there. So it has to be tried, and must not be flooded: at first `requests` may wait there for their first token, and
/// each first token that has come from it allows one more. That is TCP's slow start: the bound doubles with every round
/// of answers, so a worker as fast as the others is as full as they are after a few of them, while a slow one has
/// received few requests when its speed is known. After `until_answers` first tokens there is no bound, and the
/// forecast, which has learned from as many, decides alone.
///
/// A fleet whose workers are all new has nothing to compare them with: workers that are there from the start are not
/// bounded. Threads: one.
class WarmUp {
 public:
  WarmUp(const spec::WarmUpSpec& spec, std::size_t workers) : spec_(spec), workers_(workers) {}

  /// The worker's process is a new one, or it has just joined the fleet.
  void begin(WorkerId worker) { workers_.at(worker.value()) = {.warms_up = spec_.requests > 0}; }
  /// A request got its first token, or all of its answer, from the worker. Returns whether the bound changed.
  bool on_answer(WorkerId id) {
    Worker& worker = workers_.at(id.value());
    if (!worker.warms_up) return false;
    if (++worker.answers >= spec_.until_answers) worker = {};
    return true;
  }
  /// The id belongs to another worker from here on.
  void forget(WorkerId worker) { workers_.at(worker.value()) = {}; }

  /// How many requests may wait for their first token at the worker; 0: any number.
  [[nodiscard]] std::uint32_t most_waiting(WorkerId id) const {
    const Worker& worker = workers_.at(id.value());
    return worker.warms_up ? spec_.requests + worker.answers : 0;
  }

 private:
  struct Worker {
    bool warms_up = false;
    std::uint32_t answers = 0;  // since begin()
  };

  spec::WarmUpSpec spec_;
  std::vector<Worker> workers_;  // by WorkerId
};

}  // namespace kvist::dispatch
