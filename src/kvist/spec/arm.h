// One side of a comparison.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kvist/base/error.h"
#include "kvist/spec/routing_mode.h"

namespace kvist::spec {

/// What a sweep compares, by its name: a routing mode, or anything else that answers (ArmSpec). The name of a routing
/// mode always means that mode.
class Arm {
 public:
  Arm(RoutingMode mode) : name_(to_string(mode)) {}  // NOLINT(google-explicit-constructor): a mode is an arm
  explicit Arm(std::string name) : name_(std::move(name)) {}

  [[nodiscard]] const std::string& name() const { return name_; }
  /// Nothing if it is not named as a routing mode is.
  [[nodiscard]] std::optional<RoutingMode> mode() const;

  friend bool operator==(const Arm&, const Arm&) = default;

 private:
  std::string name_;
};

[[nodiscard]] inline std::string_view to_string(const Arm& arm) {
  return arm.name();
}

/// A name that may stand in file names and column heads: letters, digits, '.', '_', '-'; at most 64 of them.
[[nodiscard]] Result<Arm> parse_arm(std::string_view name);

/// How an arm is made on the target.
struct ArmSpec {
  Arm arm = RoutingMode::kRoundRobin;
  std::optional<RoutingMode> mode = {};  ///< that the gateway is switched to; nothing: it is left as it is
  std::string url = {};                  ///< of an endpoint of its own; empty: the sweep's target
  std::string command = {};              ///< is run before each of its measurements; empty: none

  bool operator==(const ArmSpec&) const = default;
};

}  // namespace kvist::spec
