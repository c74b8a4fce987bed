// The options of a load that agents are told, as JSON.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/cli/commands.h"
#include "kvist/loadgen/agents/agent_dialogue.h"

namespace kvist::cli {

/// What is told, and the files that are sent with it, whose names are their digests there.
struct ToldLoad {
  std::string order;
  std::vector<loadgen::OrderedFile> files;
};
/// What decides which requests are sent when and with what. How the target is reached is each agent's own setting; when
/// the load ends, and what is done with its samples, is the coordinator's. Errors: a file that cannot be read.
[[nodiscard]] Result<ToldLoad> told_load(const LoadgenArguments& arguments);

/// The same arguments. `path_of` gives the path of a file that was sent, by its digest in hexadecimal digits. Errors:
/// what is no such order, unknown options among it; those of `path_of`.
[[nodiscard]] Result<LoadgenArguments> parse_told_load(
    std::string_view json, const std::function<Result<std::string>(const std::string& digest)>& path_of);

}  // namespace kvist::cli
