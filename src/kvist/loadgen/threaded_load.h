// One load on several threads.
#pragma once

#include <memory>

#include "kvist/base/error.h"
#include "kvist/loadgen/controlled_load.h"
#include "kvist/loadgen/service.h"
#include "kvist/net/event_loop.h"

namespace kvist::loadgen {

/// A load with a service per thread, each on a loop of its own and each for a part of the conversations
/// (workload::Shard), so that the same requests are sent at the same instants as by one thread. Samples are those of
/// all parts, in the order of their ends; control API, view and feed are of all parts together (percentiles of windows
/// are means of the parts'). A change holds for all of them from one instant on, a moment after it was ordered.
/// Threads: that of the loop on which callbacks come. Methods wait for the other threads, which answer between two of
/// their events.
class ThreadedLoad : public ControlledLoad {
 public:
  /// As prepare(), with texts that were made elsewhere. Requires: `texts` are of that seed.
  virtual void use_texts(std::uint64_t seed, const std::shared_ptr<const workload::Mix>& texts) = 0;
  /// Like start_with(), with a schedule that begins at `at`, which may be in the future.
  [[nodiscard]] virtual Result<void> start_at(std::uint32_t concurrency, std::uint64_t seed, TimePoint at,
                                              const workload::LoadChange& settings) = 0;
  /// change() at `at`. Errors: those of Service::change_at().
  [[nodiscard]] virtual Result<void> change_at(const workload::LoadChange& change, TimePoint at) = 0;
};

/// With a shard in `options` the threads are its parts `index` and following of `count`. Errors: a recorded run on
/// several threads; fewer places than threads; those of Service::create().
[[nodiscard]] Result<std::unique_ptr<ThreadedLoad>> make_threaded_load(net::EventLoop& loop,
                                                                       const ServiceOptions& options,
                                                                       std::uint32_t threads);

}  // namespace kvist::loadgen
