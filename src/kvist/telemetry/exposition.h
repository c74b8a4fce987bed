// Reads a Prometheus text page: how the gateway learns a worker's limits and the sweep its counters.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::telemetry {

struct MetricSample {
  std::string name;
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;
};

/// All samples of one page, in order.
class MetricSamples {
 public:
  /// Bounded by `text` itself; a malformed line is an error that quotes it.
  [[nodiscard]] static Result<MetricSamples> parse(std::string_view text);

  /// Sum over all label sets of a name; nothing where the name does not occur.
  [[nodiscard]] std::optional<double> sum(std::string_view name) const;
  /// The same over those where `label` has this value.
  [[nodiscard]] std::optional<double> sum(std::string_view name, std::string_view label, std::string_view value) const;
  /// A label's value on the first sample of a name: vllm:cache_config_info has its content in labels.
  [[nodiscard]] std::optional<std::string_view> label(std::string_view name, std::string_view label) const;
  [[nodiscard]] const std::vector<MetricSample>& samples() const { return samples_; }

 private:
  std::vector<MetricSample> samples_;
};

}  // namespace kvist::telemetry
