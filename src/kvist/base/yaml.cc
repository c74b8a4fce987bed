#include "kvist/base/yaml.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kvist/base/closest_name.h"
#include "kvist/base/yaml_document.h"

namespace kvist {
namespace {

/// A unit's name and its size in the base unit (ns, bytes).
struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array kTimeUnits = {Unit{"ns", 1},  Unit{"us", 1e3},   Unit{"ms", 1e6},
                                   Unit{"s", 1e9}, Unit{"min", 60e9}, Unit{"h", 3600e9}};
constexpr std::array kByteUnits = {
    Unit{"B", 1},        Unit{"kB", 1e3},        Unit{"MB", 1e6},          Unit{"GB", 1e9},
    Unit{"KiB", 1024.0}, Unit{"MiB", 1048576.0}, Unit{"GiB", 1073741824.0}};

/// Whole numbers up to here are exact as doubles.
constexpr double kMaxExact = 9007199254740992.0;

template <std::size_t N>
std::string unit_names(const std::array<Unit, N>& units) {
  std::string names;
  for (const Unit& unit : units) names += (names.empty() ? "" : ", ") + std::string(unit.name);
  return names;
}

/// Converts "20 ms" to the base unit. The error text says what is wrong.
template <std::size_t N>
std::expected<double, std::string> parse_quantity(std::string_view text, const std::array<Unit, N>& units) {
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || !std::isfinite(number)) {
    return std::unexpected(fmt::format("expected a number with a unit ({}), got \"{}\"", unit_names(units), text));
  }
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  if (unit.empty()) return std::unexpected(fmt::format("\"{}\" needs a unit: {}", text, unit_names(units)));
  const auto found = std::ranges::find(units, unit, &Unit::name);
  if (found == units.end()) {
    return std::unexpected(fmt::format("unknown unit \"{}\"; known: {}", unit, unit_names(units)));
  }
  if (number < 0) return std::unexpected(fmt::format("\"{}\" must not be negative", text));
  const double value = number * found->factor;
  if (value > kMaxExact) return std::unexpected(fmt::format("\"{}\" is too large", text));
  return value;
}

std::string_view kind_name(bool map, bool sequence) {
  return map ? "a mapping" : sequence ? "a list" : "nothing";
}

}  // namespace

bool YamlNode::is_map() const {
  return document_->values[index_].kind == Document::Kind::kMap;
}
bool YamlNode::is_sequence() const {
  return document_->values[index_].kind == Document::Kind::kSequence;
}
bool YamlNode::is_null() const {
  return document_->values[index_].kind == Document::Kind::kNull;
}

std::string YamlNode::where() const {
  return fmt::format("{}:{}", document_->name, document_->values[index_].line);
}

Error YamlNode::error(std::string_view what) const {
  const std::string path = document_->path_of(index_);
  return {ErrorCode::kInvalidArgument, fmt::format("{}: {}{}{}", where(), path, path.empty() ? "" : ": ", what)};
}

std::optional<YamlNode> YamlNode::get(std::string_view key) const {
  Document::Value& map = document_->values[index_];
  if (std::ranges::find(map.asked, key) == map.asked.end()) map.asked.emplace_back(key);
  if (!is_map()) return std::nullopt;
  for (const std::size_t child : map.children) {
    if (document_->values[child].key == key) return YamlNode(document_, child);
  }
  return std::nullopt;
}

Result<YamlNode> YamlNode::require(std::string_view key) const {
  if (!is_map() && !is_null()) return std::unexpected(error("expected a mapping"));
  if (auto value = get(key)) return *std::move(value);
  // The message lists the present keys, so that a misspelt one is seen at a glance.
  std::vector<std::string_view> present;
  for (const std::size_t child : document_->values[index_].children) present.push_back(document_->values[child].key);
  if (present.size() > 8) present.resize(8);
  return std::unexpected(error(present.empty()
                                   ? fmt::format("key \"{}\" is missing", key)
                                   : fmt::format("key \"{}\" is missing among: {}", key, fmt::join(present, ", "))));
}

Result<std::vector<YamlNode>> YamlNode::elements() const {
  if (!is_sequence()) {
    return std::unexpected(error(fmt::format("expected a list, got {}", is_map()    ? "a mapping"
                                                                        : is_null() ? "nothing"
                                                                                    : "a single value")));
  }
  std::vector<YamlNode> result;
  for (const std::size_t child : document_->values[index_].children) result.push_back(YamlNode(document_, child));
  return result;
}

Result<std::vector<std::pair<std::string, YamlNode>>> YamlNode::entries() const {
  std::vector<std::pair<std::string, YamlNode>> result;
  if (is_null()) return result;
  if (!is_map()) return std::unexpected(error("expected a mapping"));
  Document::Value& map = document_->values[index_];
  for (const std::size_t child : map.children) {
    result.emplace_back(document_->values[child].key, YamlNode(document_, child));
  }
  map.asked.clear();
  for (const auto& [key, value] : result) map.asked.push_back(key);
  return result;
}

Result<std::string_view> YamlNode::scalar(std::string_view expected, bool plain_only) const {
  const Document::Value& value = document_->values[index_];
  if (value.kind != Document::Kind::kScalar) {
    return std::unexpected(error(fmt::format("expected {}, got {}", expected, kind_name(is_map(), is_sequence()))));
  }
  if (plain_only && value.quoted) {
    return std::unexpected(error(fmt::format("expected {}, got text in quotes: \"{}\"", expected, value.scalar)));
  }
  return std::string_view(value.scalar);
}

Result<std::string> YamlNode::as_string() const {
  KVIST_TRY(const std::string_view text, scalar("text", false));
  return std::string(text);
}

Result<bool> YamlNode::as_bool() const {
  KVIST_TRY(const std::string_view text, scalar("true or false", true));
  if (text == "true") return true;
  if (text == "false") return false;
  return std::unexpected(error(fmt::format("expected true or false, got \"{}\"", text)));
}

Result<double> YamlNode::as_double(double low, double high) const {
  KVIST_TRY(const std::string_view text, scalar("a number", true));
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::unexpected(error(fmt::format("expected a number, got \"{}\"", text)));
  }
  if (value < low || value > high) {
    return std::unexpected(error(fmt::format("{} is out of range ({} to {})", value, low, high)));
  }
  return value;
}

Result<std::int64_t> YamlNode::as_int(std::int64_t low, std::int64_t high) const {
  KVIST_TRY(const std::string_view text, scalar("a whole number", true));
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool out_of_range = status == std::errc::result_out_of_range || value < low || value > high;
  if ((status != std::errc() && !out_of_range) || end != text.data() + text.size()) {
    return std::unexpected(error(fmt::format("expected a whole number, got \"{}\"", text)));
  }
  if (out_of_range) return std::unexpected(error(fmt::format("{} is out of range ({} to {})", text, low, high)));
  return value;
}

Result<double> YamlNode::as_nanoseconds() const {
  KVIST_TRY(const std::string_view text, scalar("a duration with a unit (" + unit_names(kTimeUnits) + ")", false));
  const auto value = parse_quantity(text, kTimeUnits);
  if (!value) return std::unexpected(error(value.error()));
  return *value;
}

Result<Duration> YamlNode::as_duration() const {
  KVIST_TRY(const double value, as_nanoseconds());
  const double rounded = std::round(value);
  if (value > 0 && rounded == 0) return std::unexpected(error("shorter than a nanosecond"));
  return Duration(static_cast<std::int64_t>(rounded));
}

Result<std::uint64_t> YamlNode::as_bytes() const {
  KVIST_TRY(const std::string_view text, scalar("a size with a unit (" + unit_names(kByteUnits) + ")", false));
  const auto value = parse_quantity(text, kByteUnits);
  if (!value) return std::unexpected(error(value.error()));
  if (*value != std::floor(*value))
    return std::unexpected(error(fmt::format("\"{}\" is not a whole number of bytes", text)));
  return static_cast<std::uint64_t>(*value);
}

Result<void> YamlNode::finish() const {
  if (is_null()) return {};
  if (!is_map()) return std::unexpected(error("expected a mapping"));
  const Document::Value& map = document_->values[index_];
  for (const std::size_t child : map.children) {
    if (std::ranges::find(map.asked, document_->values[child].key) != map.asked.end()) continue;
    const std::string meant = did_you_mean(document_->values[child].key, map.asked);
    return std::unexpected(
        YamlNode(document_, child)
            .error(fmt::format("unknown key{} keys known here are: {}", meant.empty() ? "; the" : meant + " The",
                               fmt::join(map.asked, ", "))));
  }
  return {};
}

}  // namespace kvist
