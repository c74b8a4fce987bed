#include "kvist/deploy/gateway_status.h"

#include <limits>

#include "kvist/base/json.h"

namespace kvist::deploy {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

Result<GatewayWorkerStatus> read_worker(const JsonValue& value) {
  KVIST_TRY(const JsonObject worker, value.as_object());
  GatewayWorkerStatus status;
  KVIST_TRY(status.name, worker.require_string("name"));
  KVIST_TRY(status.healthy, worker.require_bool("healthy"));
  KVIST_TRY(status.in_flight, worker.require_unsigned("in_flight", 0, kMost));
  KVIST_TRY(status.indexed_blocks, worker.require_unsigned("indexed_blocks", 0, kMost));
  return status;
}

}  // namespace

Result<GatewayStatus> parse_gateway_status(std::string_view json) {
  JsonDocument document({.name = "/admin/status"});
  KVIST_TRY(const JsonObject root, document.parse_object(json));
  GatewayStatus status;
  KVIST_TRY(status.mode, root.require_string("mode"));
  KVIST_TRY(status.in_flight, root.require_unsigned("in_flight", 0, kMost));
  KVIST_TRY(const JsonArray workers, root.require_array("workers"));
  for (const JsonValue item : workers) {
    KVIST_TRY(GatewayWorkerStatus worker, read_worker(item));
    status.workers.push_back(std::move(worker));
  }
  return status;
}

}  // namespace kvist::deploy
