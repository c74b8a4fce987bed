// Parses a template's source.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/jinja/ast.h"

namespace kvist::jinja {

/// Larger templates are refused. Published ones have up to 20 kB.
inline constexpr std::size_t kMaxTemplateBytes = 1UL << 20;

/// `host_functions` are names for which every rendering's variables will have a HostFunction. Errors: kInvalidArgument
/// with line and column for anything that is wrong, unknown or not supported.
[[nodiscard]] Result<Program> parse(std::string_view source, std::span<const std::string> host_functions);

}  // namespace kvist::jinja
