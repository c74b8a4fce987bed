// How long requests take, by worker and class of key.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "kvist/base/id.h"
#include "kvist/gateway/latency_histogram.h"

namespace kvist::gateway {

/// The times of requests that were read, at one worker and of keys of one class.
struct RequestTimes {
  LatencyHistogram end_to_end;      ///< from the arrival to the end of a complete answer
  LatencyHistogram first_token;     ///< from the arrival to the first token of a stream
  LatencyHistogram inter_token;     ///< between arrivals of a stream's tokens; what arrives together is one arrival
  LatencyHistogram predicted_wait;  ///< for a slot and for the prompts before it, as forecast for the chosen worker
  LatencyHistogram observed_wait;   ///< by how much a first token was later than forecast without that wait
  RoutingTimeHistogram routing;     ///< from asking for a worker to knowing it

  void add(const RequestTimes& other) {
    end_to_end.add(other.end_to_end);
    first_token.add(other.first_token);
    inter_token.add(other.inter_token);
    predicted_wait.add(other.predicted_wait);
    observed_wait.add(other.observed_wait);
    routing.add(other.routing);
  }
};

/// The times of one loop's requests. They are looked up once per attempt and then kept as a pointer, so that a token
/// costs neither a search nor an allocation. Memory: 2 KiB per worker and class; there are at most kMostClasses
/// classes, the rest is counted as one. Threads: one; what is read elsewhere is a copy.
class RequestTimesTable {
 public:
  static constexpr std::size_t kMostClasses = 32;
  static constexpr std::string_view kOtherClasses = "(others)";

  /// Returns a reference that is valid as long as the table.
  [[nodiscard]] RequestTimes& of(std::string_view key_class, WorkerId worker) {
    auto classes = classes_.find(key_class);
    if (classes == classes_.end()) {
      const std::size_t named = classes_.size() - (classes_.contains(kOtherClasses) ? 1 : 0);
      if (named >= kMostClasses) key_class = kOtherClasses;
      classes = classes_.try_emplace(std::string(key_class)).first;
    }
    return classes->second[worker];
  }

  /// The id belongs to another worker from here on.
  void forget(WorkerId worker) {
    for (auto& [key_class, workers] : classes_)
      if (const auto found = workers.find(worker); found != workers.end()) found->second = {};
  }

  void add(const RequestTimesTable& other) {
    for (const auto& [key_class, workers] : other.classes_)
      for (const auto& [worker, times] : workers) of(key_class, worker).add(times);
  }

  /// In the order of class and worker.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [key_class, workers] : classes_)
      for (const auto& [worker, times] : workers) visit(key_class, worker, times);
  }

 private:
  std::map<std::string, std::map<WorkerId, RequestTimes>, std::less<>> classes_;
};

}  // namespace kvist::gateway
