// `kvist loadgen --agents`: what the coordinator is asked for.
#pragma once

#include <memory>

#include "kvist/base/error.h"
#include "kvist/cli/commands.h"
#include "kvist/cli/loadgen_options.h"
#include "kvist/loadgen/agents/remote_load.h"
#include "kvist/net/event_loop.h"

namespace kvist::cli {

/// A load on the agents that are named. Makes the load's texts, which takes long, to know its schedule. Errors name the
/// option.
[[nodiscard]] Result<std::unique_ptr<loadgen::RemoteLoad>> make_remote_load(net::EventLoop& loop,
                                                                            const LoadgenArguments& arguments,
                                                                            const LoadOrder& order);

/// An error that names the agents that were lost, if any was: the figures lack their parts.
[[nodiscard]] Result<void> check_agents(const loadgen::Coordination& coordination);

}  // namespace kvist::cli
