#include "kvist/deploy/gateway_status.h"

#include <fmt/format.h>
#include <simdjson.h>

namespace kvist::deploy {
namespace {

using simdjson::dom::object;

template <class T, class Out>
Result<void> read(const object& from, std::string_view key, Out& out) {
  T value{};
  if (const auto error = from[key].get(value); error != simdjson::SUCCESS) {
    return fail(ErrorCode::kCorrupt, fmt::format("/admin/status: {}: {}", key, simdjson::error_message(error)));
  }
  out = Out(value);
  return {};
}

}  // namespace

Result<GatewayStatus> parse_gateway_status(std::string_view json) {
  simdjson::dom::parser parser;
  object root;
  if (const auto error = parser.parse(json.data(), json.size()).get(root); error != simdjson::SUCCESS) {
    return fail(ErrorCode::kCorrupt, fmt::format("/admin/status: {}", simdjson::error_message(error)));
  }
  GatewayStatus status;
  KVIST_TRY_VOID(read<std::string_view>(root, "mode", status.mode));
  KVIST_TRY_VOID(read<std::uint64_t>(root, "in_flight", status.in_flight));
  simdjson::dom::array workers;
  KVIST_TRY_VOID(read<simdjson::dom::array>(root, "workers", workers));
  for (const simdjson::dom::element element : workers) {
    object worker;
    if (element.get(worker) != simdjson::SUCCESS) {
      return fail(ErrorCode::kCorrupt, "/admin/status: workers: expected objects");
    }
    GatewayWorkerStatus& read_worker = status.workers.emplace_back();
    KVIST_TRY_VOID(read<std::string_view>(worker, "name", read_worker.name));
    KVIST_TRY_VOID(read<bool>(worker, "healthy", read_worker.healthy));
    KVIST_TRY_VOID(read<std::uint64_t>(worker, "in_flight", read_worker.in_flight));
    KVIST_TRY_VOID(read<std::uint64_t>(worker, "indexed_blocks", read_worker.indexed_blocks));
  }
  return status;
}

}  // namespace kvist::deploy
