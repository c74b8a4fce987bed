// Converts JSON to template values.
#pragma once

#include <string_view>

#include "kvist/base/error.h"
#include "kvist/jinja/meter.h"
#include "kvist/jinja/value.h"

namespace kvist::jinja {

/// The value of a JSON text. If `marked`, every text in it, including keys, is marked. Integers beyond 64 bits become
/// floating-point. Errors: kInvalidArgument for broken JSON or nesting beyond kMaxValueDepth, kTooLarge beyond the
/// meter's memory.
[[nodiscard]] Result<Value> value_of_json(Meter& meter, std::string_view json, bool marked);

}  // namespace kvist::jinja
