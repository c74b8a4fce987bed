// The settings of the load generator's service, from what `kvist loadgen` was asked for.
#pragma once

#include "kvist/base/error.h"
#include "kvist/cli/commands.h"
#include "kvist/cli/loadgen_options.h"
#include "kvist/loadgen/service.h"

namespace kvist::cli {

/// Whether the load is shown by a dashboard: one that this process drives is.
[[nodiscard]] bool has_dashboard(const LoadgenArguments& arguments);

/// Reads keys and certificates. Errors name the option.
[[nodiscard]] Result<loadgen::ServiceOptions> service_options(const LoadgenArguments& arguments,
                                                              const LoadOrder& order);

}  // namespace kvist::cli
