// A request that another gateway gave to a worker.
#pragma once

#include <cstdint>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/routing/prefix_use.h"

namespace kvist::routing {

/// What that gateway tells of it: the same as a RoutedRequest of one's own has.
struct PeerRequest {
  WorkerId worker;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t uncached_tokens = 0;
  std::uint32_t known_tokens = 0;  ///< of its prompt, cached by the worker that had cached most of it
  std::uint32_t own_blocks = 0;
  std::uint32_t new_blocks = 0;
  bool streams = false;
  std::uint32_t choices = 1;
  bool stands_in = false;     ///< for one that will be told of: it counts as load, and in no sum over requests
  Duration late{};            ///< how long word of it, and of what becomes of it, is on its way
  std::uint64_t session = 0;  ///< as in RouteQuery
  BlockKeys blocks = {};      ///< null: they were not told, so that only `new_blocks` counts
};

}  // namespace kvist::routing
