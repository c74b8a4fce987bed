// Prometheus exposition of counters that are kept elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kvist::telemetry {

using Labels = std::vector<std::pair<std::string, std::string>>;

/// One quantile of an exported Summary.
struct QuantileValue {
  double quantile = 0;
  double value = 0;
};

/// A page, which is filled at each scrape. A family is named once; further samples of it may have other labels.
class MetricsPage {
 public:
  virtual ~MetricsPage() = default;
  virtual void counter(const std::string& name, const std::string& help, double value, const Labels& labels = {}) = 0;
  virtual void gauge(const std::string& name, const std::string& help, double value, const Labels& labels = {}) = 0;
  virtual void summary(const std::string& name, const std::string& help, std::vector<QuantileValue> quantiles,
                       std::uint64_t count, double sum, const Labels& labels = {}) = 0;
  /// `bounds` are ascending, `counts` are per bucket (not cumulative) with one more for +Inf.
  virtual void histogram(const std::string& name, const std::string& help, const std::vector<double>& bounds,
                         const std::vector<std::uint64_t>& counts, double sum, const Labels& labels = {}) = 0;
};

/// The text of one scrape (Prometheus text format 0.0.4), with what `fill` writes to the page.
[[nodiscard]] std::string expose(const std::function<void(MetricsPage&)>& fill);

inline constexpr const char* kExpositionContentType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace kvist::telemetry
