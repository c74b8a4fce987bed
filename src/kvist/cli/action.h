// What a command does.
#pragma once

#include <functional>

#include "kvist/base/error.h"

namespace kvist::cli {

/// What a parsed command does.
using Action = std::function<Result<void>()>;

}  // namespace kvist::cli
