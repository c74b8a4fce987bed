// Template text to a compiled template.
#pragma once

#include <string_view>

#include "kvist/base/error.h"
#include "kvist/jinja/ast.h"

namespace kvist::jinja {

/// Larger templates are refused; published ones have up to 20 kB.
inline constexpr std::size_t kMaxTemplateBytes = 1UL << 20;

/// kInvalidArgument with line and column for what is wrong or not supported; nothing unknown is passed over.
[[nodiscard]] Result<Program> parse(std::string_view source);

}  // namespace kvist::jinja
