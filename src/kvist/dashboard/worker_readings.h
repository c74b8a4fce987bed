// What a gateway and its workers tell of themselves, as far as the dashboard shows it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::dashboard {

/// More than a fleet has; the rest of a status is left out.
inline constexpr std::size_t kMostWorkers = 256;

/// A worker in the gateway's GET /admin/status. Nothing: not told.
struct WorkerStatus {
  std::string name;
  std::string model;
  std::string url;
  std::string state;
  std::string problem;  ///< empty: none
  std::optional<double> slots = {};
  std::string slots_source = {};  ///< empty: not known
  std::optional<double> kv_blocks = {};
  std::optional<double> block_size = {};
  std::optional<double> in_flight = {};
  std::optional<double> prefill_tokens = {};
  std::optional<double> indexed_blocks = {};
  std::string trust = {};  ///< empty: not told
  std::uint64_t restarts = 0;
};
struct GatewayStatus {
  std::string model;  ///< the first
  std::string mode;   ///< its mode
  bool several_models = false;
  std::vector<WorkerStatus> workers;
};
/// Errors: kCorrupt, with the place. Unknown keys are ignored.
[[nodiscard]] Result<GatewayStatus> read_gateway_status(std::string_view json);

/// By worker, from the gateway's page of metrics.
struct GatewayCounters {
  std::map<std::string, double, std::less<>> ended;    ///< requests
  std::map<std::string, double, std::less<>> batches;  ///< of KV events that were applied
};
[[nodiscard]] Result<GatewayCounters> read_gateway_counters(std::string_view page);

/// A worker's own page of metrics. Counters since its start; nothing: it does not have it.
struct WorkerPage {
  std::optional<double> running = {};
  std::optional<double> waiting = {};
  std::optional<double> kv_usage = {};  ///< 0 to 1
  std::optional<double> kv_blocks = {};
  std::optional<double> slots = {};
  std::optional<double> prefill_backlog_tokens = {};
  std::optional<double> evictions = {};
  std::optional<double> preemptions = {};
  std::optional<double> prefix_queries = {};
  std::optional<double> prefix_hits = {};
  std::optional<double> drafted = {};
  std::optional<double> accepted = {};
  std::optional<double> generated = {};
  std::optional<double> token_gap_s = {};  ///< sum of the times between steps that brought a request tokens
  std::optional<double> token_gaps = {};   ///< how many
};
/// Errors: it is no page of metrics.
[[nodiscard]] Result<WorkerPage> read_worker_page(std::string_view page);

}  // namespace kvist::dashboard
