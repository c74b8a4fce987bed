// Private to perfmodel: reading single entries of profile files.
#pragma once

#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/yaml.h"
#include "kvist/perfmodel/coefficients.h"

namespace kvist::perfmodel {

/// {value: 4.8e12, unit: B/s, origin: "datasheet: ..."}, and for coefficients `free` and `scales_with`.
struct Entry {
  double value = 0;
  Origin origin;
  bool is_free = false;
  ScalesWith scales_with = ScalesWith::kNothing;
};

/// A number within [low, high] of the given unit.
[[nodiscard]] Result<Entry> read_entry(const YamlNode& node, std::string_view unit, double low, double high);
/// "kind: text"; the error lists the kinds.
[[nodiscard]] Result<Origin> read_origin(const YamlNode& node);
/// The origin's text in a file.
[[nodiscard]] std::string to_text(const Origin& origin);
/// Letters, digits, '.', '_', '-'; at most 64.
[[nodiscard]] Result<std::string> read_part_name(const YamlNode& node);

}  // namespace kvist::perfmodel
