#include "kvist/workload/trace_fields.h"

#include <cmath>

#include "kvist/base/random.h"

namespace kvist::workload {
namespace {

/// Whole milliseconds stay exact; others are kept to the microsecond.
Duration duration_of(double ms) {
  if (ms == std::floor(ms)) return std::chrono::milliseconds(static_cast<std::int64_t>(ms));
  return std::chrono::microseconds(std::llround(ms * 1e3));
}

}  // namespace

Result<std::optional<Duration>> find_time(const JsonObject& object, std::string_view name, std::string_view expected,
                                          double unit_ms) {
  KVIST_TRY(const std::optional<JsonValue> value, object.find(name));
  if (!value) return std::nullopt;
  const double number = value->if_double().value_or(-1);
  if (!(number >= 0 && number * unit_ms <= kMaxMilliseconds)) return value->expected(expected);
  return duration_of(number * unit_ms);
}

Result<std::optional<std::uint64_t>> find_name(const JsonObject& object, std::string_view name) {
  KVIST_TRY(const std::optional<JsonValue> value, object.find(name));
  if (!value) return std::nullopt;
  if (const auto number = value->if_int()) return mix_seed({static_cast<std::uint64_t>(*number)});
  if (const auto number = value->if_unsigned()) return mix_seed({*number});
  if (const auto text = value->if_string()) return mix_seed({seed_part("name"), seed_part(*text)});
  return value->expected("a name or a whole number");
}

Result<std::uint32_t> require_tokens(const JsonObject& object, std::string_view name, std::uint64_t least) {
  KVIST_TRY(const std::uint64_t tokens, object.require_unsigned(name, least, kMaxTokens));
  return static_cast<std::uint32_t>(tokens);
}

}  // namespace kvist::workload
