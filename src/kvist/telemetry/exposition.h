// Reads a Prometheus text page, from which the gateway takes a worker's limits and the sweep its counters.
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
  /// Memory is bounded by the size of `text`. A malformed line is an error, which quotes it.
  [[nodiscard]] static Result<MetricSamples> parse(std::string_view text);

  /// Sum over all label sets of a name; nothing if the name does not occur.
  [[nodiscard]] std::optional<double> sum(std::string_view name) const;
  /// Sum over the label sets in which `label` has this value.
  [[nodiscard]] std::optional<double> sum(std::string_view name, std::string_view label, std::string_view value) const;
  /// The mean over all label sets of a name: of a share that each of several engines tells of itself, whose sum says
  /// nothing. Nothing if the name does not occur.
  [[nodiscard]] std::optional<double> mean(std::string_view name) const;
  /// The value of a label of the first sample of a name. vllm:cache_config_info has its content in labels.
  [[nodiscard]] std::optional<std::string_view> label(std::string_view name, std::string_view label) const;
  [[nodiscard]] const std::vector<MetricSample>& samples() const { return samples_; }

 private:
  std::vector<MetricSample> samples_;
};

}  // namespace kvist::telemetry
