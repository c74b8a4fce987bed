// Template text to a compiled template.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/jinja/ast.h"

namespace kvist::jinja {

/// Larger templates are refused; published ones have up to 20 kB.
inline constexpr std::size_t kMaxTemplateBytes = 1UL << 20;

/// `host_functions`: names that the variables of a rendering will have as a HostFunction each. kInvalidArgument with
/// line and column for what is wrong or not supported; nothing unknown is passed over.
[[nodiscard]] Result<Program> parse(std::string_view source, std::span<const std::string> host_functions);

}  // namespace kvist::jinja
