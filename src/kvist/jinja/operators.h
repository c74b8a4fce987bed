// Arithmetic, concatenation and slices of values.
#pragma once

#include "kvist/base/error.h"
#include "kvist/jinja/ast.h"
#include "kvist/jinja/meter.h"
#include "kvist/jinja/value.h"

namespace kvist::jinja {

/// Every operator except `and` and `or`, which evaluate their right side only if they need it. Errors: kInvalidArgument
/// for operands that do not fit together, a division by zero, and an integer beyond 64 bits.
[[nodiscard]] Result<Value> binary(Meter& meter, BinaryOperator op, const Value& left, const Value& right);
[[nodiscard]] Result<Value> negated(const Value& value);
[[nodiscard]] Result<bool> compared(Meter& meter, Comparison comparison, const Value& left, const Value& right);
/// value[begin:end:step] by Python's rules. An undefined part counts as left out.
[[nodiscard]] Result<Value> slice(Meter& meter, const Value& value, const Value& begin, const Value& end,
                                  const Value& step);

}  // namespace kvist::jinja
