#include "kvist/spec/arm.h"

#include <algorithm>

#include <fmt/format.h>

#include "kvist/spec/fields.h"

namespace kvist::spec {

std::optional<RoutingMode> Arm::mode() const {
  const auto found = std::ranges::find(kRoutingModes, name_, [](RoutingMode mode) { return to_string(mode); });
  return found == kRoutingModes.end() ? std::nullopt : std::optional(*found);
}

Result<Arm> parse_arm(std::string_view name) {
  if (is_name(name)) return Arm(std::string(name));
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("expected letters, digits, '.', '_' and '-', at most 64, got \"{}\"", name));
}

}  // namespace kvist::spec
