// Threads for work on prompts that would hold up the loop.
#pragma once

#include "kvist/net/work_pool.h"

namespace kvist::gateway {

using ReadingPool = net::WorkPool;

}  // namespace kvist::gateway
