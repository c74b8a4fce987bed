// Options of `kvist loadgen` that have no meaning beside others, and numbers that are none: refused, because ignoring
// them would measure another load than the one that was asked for.
#pragma once

#include "kvist/base/error.h"
#include "kvist/cli/commands.h"
#include "kvist/spec/workload.h"

namespace kvist::cli {

/// What a load says, and who decided when.
enum class LoadContent {
  kDrawn,        ///< conversations drawn from a seed
  kChats,        ///< those of a data set
  kTimedTrace,   ///< requests of a trace at their own instants
  kMix,          ///< several kinds of conversations, by weight
  kClosedTrace,  ///< requests of a trace, as fast as places become free
};

/// Refuses numbers out of their bounds, not finite ones among them. The error names the option and its bounds.
[[nodiscard]] Result<void> check_numbers(const LoadgenArguments& arguments);

/// Refuses options that `content` or another option makes meaningless. The error names the option and says why.
[[nodiscard]] Result<void> refuse_ignored(const LoadgenArguments& arguments, LoadContent content);

/// Refuses what the workload of -f makes meaningless, and of that workload what `content` does. Requires: `file` as it
/// was read, without any option.
[[nodiscard]] Result<void> refuse_beside_file(const LoadgenArguments& arguments, LoadContent content,
                                              const spec::WorkloadSpec& file);

}  // namespace kvist::cli
