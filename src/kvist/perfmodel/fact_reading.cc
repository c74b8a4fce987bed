#include "kvist/perfmodel/fact_reading.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace kvist::perfmodel {
namespace {

constexpr std::array kKinds = {OriginKind::kDatasheet, OriginKind::kDerived, OriginKind::kMeasured,
                               OriginKind::kFitted,    OriginKind::kAssumed, OriginKind::kExtrapolated};
constexpr std::array kScalings = {ScalesWith::kNothing, ScalesWith::kLayers, ScalesWith::kWeights};
constexpr std::size_t kMaxText = 500;

bool is_printable(std::string_view text) {
  return std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

}  // namespace

std::string_view to_string(OriginKind kind) {
  switch (kind) {
    case OriginKind::kDatasheet:
      return "datasheet";
    case OriginKind::kDerived:
      return "derived";
    case OriginKind::kMeasured:
      return "measured";
    case OriginKind::kFitted:
      return "fitted";
    case OriginKind::kAssumed:
      return "assumed";
    case OriginKind::kExtrapolated:
      return "extrapolated";
  }
  return "unknown";
}

std::string_view to_string(ScalesWith scaling) {
  switch (scaling) {
    case ScalesWith::kNothing:
      return "nothing";
    case ScalesWith::kLayers:
      return "layers";
    case ScalesWith::kWeights:
      return "weights";
  }
  return "unknown";
}

std::string to_text(const Origin& origin) {
  return fmt::format("{}: {}", to_string(origin.kind), origin.text);
}

Result<Origin> read_origin(const YamlNode& node) {
  KVIST_TRY(const std::string text, node.as_string());
  if (text.size() > kMaxText || !is_printable(text)) {
    return std::unexpected(node.error(fmt::format("expected one line of at most {} characters", kMaxText)));
  }
  for (const OriginKind kind : kKinds) {
    const std::string prefix = std::string(to_string(kind)) + ": ";
    if (text.starts_with(prefix) && text.size() > prefix.size()) return Origin{kind, text.substr(prefix.size())};
  }
  std::string known;
  for (const OriginKind kind : kKinds) known.append(known.empty() ? "" : ", ").append(to_string(kind));
  return std::unexpected(
      node.error(fmt::format("expected where the value is from, as \"KIND: TEXT\" with a kind of {}", known)));
}

Result<Entry> read_entry(const YamlNode& node, std::string_view unit, double low, double high) {
  if (!node.is_map()) {
    return std::unexpected(node.error("expected {value: ..., unit: ..., origin: ...}"));
  }
  Entry entry;
  KVIST_TRY(const YamlNode value, node.require("value"));
  KVIST_TRY(entry.value, value.as_double(low, high));
  KVIST_TRY(const YamlNode unit_node, node.require("unit"));
  KVIST_TRY(const std::string given, unit_node.as_string());
  if (given != unit) return std::unexpected(unit_node.error(fmt::format("expected {}, got \"{}\"", unit, given)));
  KVIST_TRY(const YamlNode origin, node.require("origin"));
  KVIST_TRY(entry.origin, read_origin(origin));
  if (const auto flag = node.get("free")) {
    KVIST_TRY(entry.is_free, flag->as_bool());
  }
  if (const auto scaling = node.get("scales_with")) {
    KVIST_TRY(const std::string text, scaling->as_string());
    const auto found = std::ranges::find_if(kScalings, [&](ScalesWith s) { return to_string(s) == text; });
    if (found == kScalings.end()) {
      return std::unexpected(scaling->error(fmt::format("expected nothing, layers or weights, got \"{}\"", text)));
    }
    if (unit != "ms" && *found != ScalesWith::kNothing) {
      return std::unexpected(scaling->error("only times scale; efficiencies and sizes hold everywhere"));
    }
    entry.scales_with = *found;
  }
  KVIST_TRY_VOID(node.finish());
  return entry;
}

Result<std::string> read_part_name(const YamlNode& node) {
  KVIST_TRY(std::string name, node.as_string());
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  constexpr std::size_t kMaxLength = 64;
  if (name.empty() || name.size() > kMaxLength || name.find_first_not_of(kAllowed) != std::string::npos) {
    return std::unexpected(node.error(fmt::format("\"{}\" is not a name", name)));
  }
  return name;
}

}  // namespace kvist::perfmodel
