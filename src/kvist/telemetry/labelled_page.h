// Labels that all metrics of a part have.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kvist/telemetry/metrics.h"

namespace kvist::telemetry {

/// Puts labels before those of each sample, unless the sample has a label of that name.
class LabelledPage final : public MetricsPage {
 public:
  /// Requires: the page outlives this object.
  LabelledPage(MetricsPage& page, Labels labels) : page_(&page), labels_(std::move(labels)) {}

  void counter(const std::string& name, const std::string& help, double value, const Labels& labels = {}) override {
    page_->counter(name, help, value, with(labels));
  }
  void gauge(const std::string& name, const std::string& help, double value, const Labels& labels = {}) override {
    page_->gauge(name, help, value, with(labels));
  }
  void summary(const std::string& name, const std::string& help, std::vector<QuantileValue> quantiles,
               std::uint64_t count, double sum, const Labels& labels = {}) override {
    page_->summary(name, help, std::move(quantiles), count, sum, with(labels));
  }
  void histogram(const std::string& name, const std::string& help, const std::vector<double>& bounds,
                 const std::vector<std::uint64_t>& counts, double sum, const Labels& labels = {}) override {
    page_->histogram(name, help, bounds, counts, sum, with(labels));
  }

 private:
  [[nodiscard]] Labels with(const Labels& labels) const {
    Labels all;
    for (const auto& label : labels_)
      if (std::ranges::find(labels, label.first, &std::pair<std::string, std::string>::first) == labels.end())
        all.push_back(label);
    all.insert(all.end(), labels.begin(), labels.end());
    return all;
  }

  MetricsPage* page_;
  Labels labels_;
};

}  // namespace kvist::telemetry
