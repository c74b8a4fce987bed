#include "kvist/telemetry/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <sstream>
#include <string_view>
#include <unordered_map>

#include "kvist/base/check.h"

namespace kvist::telemetry {

namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

bool name_character(char c, bool colon) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || (colon && c == ':');
}

bool valid_name(std::string_view name, bool colon) {
  return !name.empty() && !(name.front() >= '0' && name.front() <= '9') &&
         std::ranges::all_of(name, [&](char c) { return name_character(c, colon); });
}

/// The serializer writes help texts as they are; a line break would end the comment.
std::string one_line(std::string text) {
  std::ranges::replace_if(text, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

/// Families in the order in which they were first named.
class Page final : public MetricsPage {
 public:
  void counter(const std::string& name, const std::string& help, double value, const Labels& labels) override {
    add(MetricType::Counter, name, help, labels).counter.value = value;
  }

  void gauge(const std::string& name, const std::string& help, double value, const Labels& labels) override {
    add(MetricType::Gauge, name, help, labels).gauge.value = value;
  }

  void summary(const std::string& name, const std::string& help, std::vector<QuantileValue> quantiles,
               std::uint64_t count, double sum, const Labels& labels) override {
    auto& summary = add(MetricType::Summary, name, help, labels).summary;
    summary.sample_count = count;
    summary.sample_sum = sum;
    for (const auto& [quantile, value] : quantiles) summary.quantile.push_back({quantile, value});
  }

  void histogram(const std::string& name, const std::string& help, const std::vector<double>& bounds,
                 const std::vector<std::uint64_t>& counts, double sum, const Labels& labels) override {
    KVIST_CHECK(counts.size() == bounds.size() + 1, name);
    KVIST_CHECK(std::ranges::is_sorted(bounds), name);
    auto& histogram = add(MetricType::Histogram, name, help, labels).histogram;
    histogram.sample_sum = sum;
    histogram.sample_count = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    std::uint64_t cumulative = 0;
    for (std::size_t i = 0; i < bounds.size(); ++i) {
      cumulative += counts[i];
      histogram.bucket.push_back({cumulative, bounds[i]});
    }
  }

  [[nodiscard]] const std::vector<MetricFamily>& families() const { return families_; }

 private:
  ClientMetric& add(MetricType type, const std::string& name, const std::string& help, const Labels& labels) {
    const auto [entry, is_new] = index_.try_emplace(name, families_.size());
    if (is_new) {
      KVIST_CHECK(valid_name(name, true), name);
      families_.push_back({name, one_line(help), type, {}});
    }
    MetricFamily& family = families_[entry->second];
    KVIST_CHECK(family.type == type, name + " was of another type before");
    ClientMetric& metric = family.metric.emplace_back();
    for (const auto& [label, value] : labels) {
      KVIST_CHECK(valid_name(label, false), std::string(name).append(" with label ").append(label));
      metric.label.push_back({label, value});
    }
    return metric;
  }

  std::vector<MetricFamily> families_;
  std::unordered_map<std::string, std::size_t> index_;  // by name
};

}  // namespace

std::string expose(const std::function<void(MetricsPage&)>& fill) {
  Page page;
  fill(page);
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, page.families());
  return std::move(out).str();
}

}  // namespace kvist::telemetry
