#include "kvist/cli/outcome.h"

#include <fmt/format.h>

#include <cerrno>  // program_invocation_name, of glibc

#include "kvist/cli/print.h"

namespace kvist::cli {

void print_outcome(const sweep::SweepOutcome& outcome) {
  if (!outcome.files) return;
  print_line("");
  print_line(outcome.table);
  print_line(fmt::format("report    {}", outcome.files->html));
  print_line(fmt::format("          {}", outcome.files->markdown));
  print_line(fmt::format("          {}", outcome.files->json));
  print_line(fmt::format("results   {}/results.sqlite", outcome.directory));
  // As the user called it, who may have no kvist in the PATH.
  print_line(fmt::format("dashboard {} dashboard {}", program_invocation_name, outcome.directory));
}

Result<void> result_of(const sweep::SweepOutcome& outcome) {
  if (!outcome.failure) return {};
  Error error = *outcome.failure;
  return std::unexpected(
      std::move(error).in(fmt::format("{} of {} levels were measured", outcome.levels_done, outcome.levels_planned)));
}

}  // namespace kvist::cli
