// A command of the user's, run to its end.
#pragma once

#include <string>

#include "kvist/base/error.h"
#include "kvist/deploy/until.h"

namespace kvist::deploy {

/// Runs `command` by /bin/sh in a process group of its own, without standard input; its output goes to this process's
/// standard error. At the deadline or when it is stopped, the group is killed. Errors: an exit status other than 0, a
/// signal, a time-out.
[[nodiscard]] Result<void> run_command(const std::string& command, const Until& until);

}  // namespace kvist::deploy
