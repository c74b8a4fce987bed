// One load on several threads.
#pragma once

#include <memory>

#include "kvist/base/error.h"
#include "kvist/loadgen/load.h"
#include "kvist/loadgen/service.h"
#include "kvist/net/event_loop.h"

namespace kvist::loadgen {

/// Drives a load with a service per thread, each on a loop of its own and each for a part of the conversations
/// (workload::Shard), so that the same requests are sent at the same instants as by one thread. Samples are those of
/// all parts, in the order of their ends. The control API is the first part's, serves metrics only and knows only that
/// part. Errors: a replay; fewer places than threads; those of Service::create(). Threads: that of `loop`, on which
/// callbacks come. Methods wait for the other threads, which answer between two of their events.
[[nodiscard]] Result<std::unique_ptr<Load>> make_threaded_load(net::EventLoop& loop, const ServiceOptions& options,
                                                               std::uint32_t threads);

}  // namespace kvist::loadgen
