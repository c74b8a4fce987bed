// W3C trace context: which trace a request belongs to.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvist::telemetry {

/// Of all spans of one request, over all services. Not zero.
struct TraceId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  [[nodiscard]] std::string hex() const;  ///< 32 digits
  bool operator==(const TraceId&) const = default;
};

/// Not zero.
struct SpanId {
  std::uint64_t value = 0;

  [[nodiscard]] std::string hex() const;  ///< 16 digits
  bool operator==(const SpanId&) const = default;
};

/// A span as others name it: what a `traceparent` field holds.
struct TraceContext {
  TraceId trace;
  SpanId span;
  bool sampled = false;  ///< its service records it

  bool operator==(const TraceContext&) const = default;
};

inline constexpr std::string_view kTraceParentHeader = "traceparent";

/// Reads a `traceparent` field; nothing if it is none, which the standard has be ignored. Of later versions only what
/// version 00 has is read.
[[nodiscard]] std::optional<TraceContext> parse_trace_parent(std::string_view text);
/// "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
[[nodiscard]] std::string to_trace_parent(const TraceContext& context);

}  // namespace kvist::telemetry
