// /admin/workers: which workers there are, and changes of that.
#pragma once

#include "kvist/gateway/served_models.h"
#include "kvist/net/path_table.h"

namespace kvist::gateway {

/// Adds the paths to those of the listener for administration, which refuses changes that a web page could send:
///   GET /admin/workers           the places of the fleet, and workers that wait for one
///   POST /admin/workers          adds a worker: {"model", "name", "url", "kv_events", "kv_replay", "limits"};
///                                the model can be left out if there is only one
///   POST /admin/workers/cordon   {"name"}: no new requests
///   POST /admin/workers/uncordon {"name"}: takes back what an administrator decided of the worker
///   POST /admin/workers/drain    {"name", "timeout"}: removed when its requests are over, or after `timeout`
///   POST /admin/workers/remove   {"name"}: at once; its requests go on elsewhere if they can
/// Requires: the others outlive the table. Threads: the loop's.
void add_fleet_paths(net::PathTable& paths, const SharedParts& shared, const ServedModels& models);

}  // namespace kvist::gateway
