#include "kvist/telemetry/exposition.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <system_error>

namespace kvist::telemetry {

namespace {

constexpr std::size_t kMaxQuotedBytes = 120;

/// Reads one line from left to right. Each function returns whether it found what it reads.
class LineReader {
 public:
  explicit LineReader(std::string_view line) : rest_(line) {}

  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size())); }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  [[nodiscard]] bool at(char c) const { return rest_.starts_with(c); }
  [[nodiscard]] bool take(char c) {
    if (!at(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  /// [a-zA-Z_:][a-zA-Z0-9_:]*
  [[nodiscard]] bool take_name(std::string& name) {
    const auto part = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == ':';
    };
    const auto end = std::ranges::find_if_not(rest_, part);
    const auto size = static_cast<std::size_t>(end - rest_.begin());
    if (size == 0 || (rest_.front() >= '0' && rest_.front() <= '9')) return false;
    name = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }

  /// "..." with the escapes \\, \" and \n.
  [[nodiscard]] bool take_quoted(std::string& value) {
    if (!take('"')) return false;
    value.clear();
    while (!rest_.empty()) {
      char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '"') return true;
      if (c == '\\') {
        if (rest_.empty()) return false;
        c = rest_.front();
        rest_.remove_prefix(1);
        if (c == 'n') {
          c = '\n';
        } else if (c != '\\' && c != '"') {
          return false;
        }
      }
      value += c;
    }
    return false;
  }

  /// Everything up to the next blank.
  [[nodiscard]] std::string_view take_word() {
    const std::string_view word = rest_.substr(0, rest_.find_first_of(" \t"));
    rest_.remove_prefix(word.size());
    return word;
  }

 private:
  std::string_view rest_;
};

/// {name="value",...}, a comma at the end allowed.
bool read_labels(LineReader& line, std::vector<std::pair<std::string, std::string>>& labels) {
  while (true) {
    line.skip_blanks();
    if (line.take('}')) return true;
    auto& [name, value] = labels.emplace_back();
    if (!line.take_name(name)) return false;
    line.skip_blanks();
    if (!line.take('=')) return false;
    line.skip_blanks();
    if (!line.take_quoted(value)) return false;
    line.skip_blanks();
    if (!line.take(',') && !line.at('}')) return false;
  }
}

template <class Number>
bool read_number(std::string_view word, Number& number) {
  if (word.starts_with('+')) word.remove_prefix(1);
  if (word.starts_with('+')) return false;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size() && !word.empty();
}

bool read_sample(LineReader& line, MetricSample& sample) {
  if (!line.take_name(sample.name)) return false;
  line.skip_blanks();
  if (line.take('{') && !read_labels(line, sample.labels)) return false;
  line.skip_blanks();
  if (!read_number(line.take_word(), sample.value)) return false;
  line.skip_blanks();
  if (line.at_end() || line.at('#')) return true;  // an OpenMetrics exemplar may follow the sign
  double timestamp = 0;                            // milliseconds, or seconds with a fraction in OpenMetrics
  if (!read_number(line.take_word(), timestamp)) return false;
  line.skip_blanks();
  return line.at_end() || line.at('#');
}

std::string_view without_line_end(std::string_view line) {
  return line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
}

}  // namespace

Result<MetricSamples> MetricSamples::parse(std::string_view text) {
  MetricSamples page;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view content = without_line_end(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    LineReader line(content);
    line.skip_blanks();
    if (line.at_end() || line.at('#')) continue;
    MetricSample& sample = page.samples_.emplace_back();
    if (!read_sample(line, sample)) {
      return fail(ErrorCode::kCorrupt, "line " + std::to_string(number) +
                                           " is no metric: " + std::string(content.substr(0, kMaxQuotedBytes)));
    }
  }
  return page;
}

std::optional<double> MetricSamples::sum(std::string_view name) const {
  std::optional<double> total;
  for (const MetricSample& sample : samples_) {
    if (sample.name == name) total = total.value_or(0) + sample.value;
  }
  return total;
}

std::optional<double> MetricSamples::sum(std::string_view name, std::string_view label, std::string_view value) const {
  std::optional<double> total;
  for (const MetricSample& sample : samples_) {
    const auto matches = [&](const auto& entry) { return entry.first == label && entry.second == value; };
    if (sample.name == name && std::ranges::any_of(sample.labels, matches)) total = total.value_or(0) + sample.value;
  }
  return total;
}

std::optional<double> MetricSamples::mean(std::string_view name) const {
  const std::optional<double> total = sum(name);
  if (!total) return std::nullopt;
  return *total / static_cast<double>(std::ranges::count(samples_, name, &MetricSample::name));
}

std::optional<std::string_view> MetricSamples::label(std::string_view name, std::string_view label) const {
  const auto sample = std::ranges::find(samples_, name, &MetricSample::name);
  if (sample == samples_.end()) return std::nullopt;
  for (const auto& [key, value] : sample->labels) {
    if (key == label) return value;
  }
  return std::nullopt;
}

}  // namespace kvist::telemetry
