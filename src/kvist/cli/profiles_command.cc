// kvist plan profiles: lists the known GPUs, models and engines, and the coefficients of a combination.
#include <fmt/format.h>

#include <algorithm>

#include "kvist/cli/commands.h"
#include "kvist/cli/print.h"
#include "kvist/perfmodel/profile.h"

namespace kvist::cli {
namespace {

void print_parts() {
  for (const perfmodel::ProfilePart& part : perfmodel::list_profiles()) {
    print_line(fmt::format("{:<7} {:<22} {}", part.kind, part.name, part.title));
  }
}

void print_description(const perfmodel::ProfileDescription& description) {
  print_line(description.title);
  print_line("");
  for (const perfmodel::DerivedCost& cost : description.costs) {
    print_line(fmt::format("{:<40} {:>12.6g} {:<8} {}", cost.name, cost.value, cost.unit, cost.formula));
  }
  print_line("");
  for (const perfmodel::Coefficient& c : description.coefficients) {
    print_line(fmt::format("{:<40} {:>12.6g} {:<8} {}", c.name, c.value, c.unit, c.meaning));
    print_line(fmt::format("{:<63}{}: {}", "", to_string(c.origin.kind), c.origin.text));
  }
  if (!description.extrapolation.extrapolated()) return;
  print_line("");
  print_line("Extrapolated: no measurement backs this combination.");
  for (const std::string& reason : description.extrapolation.reasons) print_line("  " + reason);
}

}  // namespace

Result<void> plan_profiles(const PlanProfilesArguments& arguments) {
  if (!arguments.describe) {
    print_parts();
    return {};
  }
  const std::uint32_t gpus = arguments.profile.tensor_parallel;
  if (gpus != 1 && gpus != 2 && gpus != 4) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("--tensor-parallel: {}; expected 1, 2 or 4", gpus));
  }
  KVIST_TRY(const perfmodel::ProfileDescription description, perfmodel::describe(arguments.profile));
  print_description(description);
  return {};
}

}  // namespace kvist::cli
