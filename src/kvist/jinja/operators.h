// Arithmetic, concatenation and slices of values.
#pragma once

#include "kvist/base/error.h"
#include "kvist/jinja/ast.h"
#include "kvist/jinja/meter.h"
#include "kvist/jinja/value.h"

namespace kvist::jinja {

/// Every operator but `and` and `or`, which evaluate their right side only where they need it. kInvalidArgument where
/// the two do not go together, at a division by zero, and where an integer leaves 64 bits.
[[nodiscard]] Result<Value> binary(Meter& meter, BinaryOperator op, const Value& left, const Value& right);
[[nodiscard]] Result<Value> negated(const Value& value);
[[nodiscard]] Result<bool> compared(Meter& meter, Comparison comparison, const Value& left, const Value& right);
/// value[begin:end:step] by Python's rules; undefined parts are left out.
[[nodiscard]] Result<Value> slice(Meter& meter, const Value& value, const Value& begin, const Value& end,
                                  const Value& step);

}  // namespace kvist::jinja
