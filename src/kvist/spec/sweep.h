// What a sweep is: levels x modes on a deployment, and the method of measuring.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/base/yaml.h"
#include "kvist/spec/agents_spec.h"
#include "kvist/spec/arm.h"
#include "kvist/spec/comparison_spec.h"
#include "kvist/spec/deployment.h"
#include "kvist/spec/figure_keys.h"
#include "kvist/spec/routing_mode.h"
#include "kvist/spec/simulation_spec.h"
#include "kvist/spec/target_spec.h"
#include "kvist/spec/workload.h"

namespace kvist::spec {

/// What happens between a level and the next higher one of the same mode.
enum class BetweenLevels {
  kDrain,     ///< the load stops, what is in flight ends, the next level begins with other conversations
  kContinue,  ///< one load for all levels: after a level's last snapshot more conversations join those running
};

/// Limits that a turn has to keep to count as good; nothing: it may take any time.
struct GoodputSpec {
  std::optional<Duration> ttft = {};
  std::optional<Duration> tpot = {};     ///< a turn of one token has none, and keeps it
  std::optional<Duration> latency = {};  ///< from sending to the end of the answer

  [[nodiscard]] bool is_given() const { return ttft || tpot || latency; }
  bool operator==(const GoodputSpec&) const = default;
};

/// The published method: warm up, then `snapshots` snapshots one `snapshot_interval` apart (the first one interval
/// after the warm-up), quantiles and rates over the last `window` at each, the snapshots averaged.
struct MethodSpec {
  Duration warmup = std::chrono::seconds(60);
  std::uint32_t snapshots = 3;
  Duration snapshot_interval = std::chrono::seconds(100);
  Duration window = std::chrono::seconds(60);
  Duration drain_timeout = std::chrono::seconds(120);  ///< for requests in flight after the last snapshot
  double max_error_pct = 5;                            ///< a level above it is marked as excluded
  std::uint32_t repetitions = 1;                       ///< each level so often, each time with another seed
  BetweenLevels between_levels = BetweenLevels::kDrain;
  GoodputSpec goodput = {};

  bool operator==(const MethodSpec&) const = default;
};

struct SweepSpec {
  std::string name = "sweep";
  DeploymentSpec deployment;
  WorkloadSpec workload;
  MethodSpec method;
  std::vector<RoutingMode> modes;  ///< the first is the baseline; empty if `arms` are given
  std::vector<ArmSpec> arms = {};  ///< what is compared, if that is more than modes; the first is the baseline
  ComparisonSpec comparison = {};
  TargetSpec target = {};  ///< is measured in place of the deployment
  AgentsSpec agents = {};  ///< a live sweep's load is driven by them
  /// Ascending: concurrent conversations; with open arrivals (spec::ArrivalSpec) conversation starts per minute.
  std::vector<std::uint32_t> levels;
  SimulationSpec simulation = {};  ///< `kvist simulate` only; a live sweep measures what these describe
  std::string output_directory = "out";

  bool operator==(const SweepSpec&) const = default;
};

/// Whether turns are due by a schedule and not by the ends of others: open arrivals, or a trace in an open loop.
[[nodiscard]] bool has_schedule(const WorkloadSpec& workload);
/// Why no level of the sweep can have a figure, and what would be needed; nothing if levels can have it.
[[nodiscard]] std::optional<std::string> missing_for(Headline figure, const SweepSpec& sweep);

/// Why agents cannot drive the sweep's load; nothing if they can.
[[nodiscard]] std::optional<std::string> unfit_for_agents(const SweepSpec& sweep);

/// What a sweep compares: its arms, or an arm per mode.
[[nodiscard]] std::vector<ArmSpec> arms_of(const SweepSpec& sweep);

/// `deployment` is a mapping, or the path of a deployment file relative to the sweep file's folder `base_directory`.
[[nodiscard]] Result<SweepSpec> read_sweep(const YamlNode& node, const std::string& base_directory);
/// One whole document, every setting spelt out and the deployment in place, that read_sweep() reads back to the same
/// values: what a run stores as its configuration.
[[nodiscard]] std::string to_yaml(const SweepSpec& sweep);

}  // namespace kvist::spec
