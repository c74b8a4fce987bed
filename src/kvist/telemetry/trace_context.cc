#include "kvist/telemetry/trace_context.h"

#include <fmt/format.h>

#include <cstddef>

namespace kvist::telemetry {
namespace {

/// Capitals are not allowed.
std::optional<std::uint64_t> read_hex(std::string_view digits) {
  std::uint64_t value = 0;
  for (const char c : digits) {
    const bool decimal = c >= '0' && c <= '9';
    if (!decimal && !(c >= 'a' && c <= 'f')) return std::nullopt;
    value = (value << 4) | static_cast<std::uint64_t>(decimal ? c - '0' : c - 'a' + 10);
  }
  return value;
}

}  // namespace

std::string TraceId::hex() const {
  return fmt::format("{:016x}{:016x}", high, low);
}

std::string SpanId::hex() const {
  return fmt::format("{:016x}", value);
}

std::optional<TraceContext> parse_trace_parent(std::string_view text) {
  constexpr std::size_t kLength = 55;
  constexpr std::uint64_t kInvalidVersion = 0xFF;
  if (text.size() < kLength || text[2] != '-' || text[35] != '-' || text[52] != '-') return std::nullopt;
  const auto version = read_hex(text.substr(0, 2));
  const auto high = read_hex(text.substr(3, 16));
  const auto low = read_hex(text.substr(19, 16));
  const auto span = read_hex(text.substr(36, 16));
  const auto flags = read_hex(text.substr(53, 2));
  if (!version || !high || !low || !span || !flags || *version == kInvalidVersion) return std::nullopt;
  const bool fits = text.size() == kLength || (*version > 0 && text[kLength] == '-');
  if (!fits || (*high == 0 && *low == 0) || *span == 0) return std::nullopt;
  return TraceContext{.trace = {.high = *high, .low = *low}, .span = {*span}, .sampled = (*flags & 1) != 0};
}

std::string to_trace_parent(const TraceContext& context) {
  return fmt::format("00-{}-{}-{:02x}", context.trace.hex(), context.span.hex(), context.sampled ? 1 : 0);
}

}  // namespace kvist::telemetry
