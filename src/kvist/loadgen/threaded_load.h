// One load on several threads.
#pragma once

#include <memory>

#include "kvist/base/error.h"
#include "kvist/loadgen/load.h"
#include "kvist/loadgen/service.h"
#include "kvist/net/event_loop.h"

namespace kvist::loadgen {

/// Drives a load with a service per thread, each on a loop of its own, for a part of its conversations each
/// (workload::Shard): the same requests at the same instants as one thread would send. Samples are those of all parts,
/// in the order of their ends. Its control API, that of the first part, is for metrics alone and knows that part only.
/// Errors: a replay; fewer places than threads; those of Service::create(). Threads: that of `loop`, on which callbacks
/// come; methods wait for the threads, which answer between two of their events.
[[nodiscard]] Result<std::unique_ptr<Load>> make_threaded_load(net::EventLoop& loop, const ServiceOptions& options,
                                                               std::uint32_t threads);

}  // namespace kvist::loadgen
