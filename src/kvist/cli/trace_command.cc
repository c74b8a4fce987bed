// kvist trace: traces to replay.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <ranges>
#include <utility>

#include "kvist/cli/commands.h"
#include "kvist/cli/duration_argument.h"
#include "kvist/cli/print.h"
#include "kvist/spec/files.h"
#include "kvist/workload/trace_file.h"
#include "kvist/workload/trace_generator.h"
#include "kvist/workload/traffic_generator.h"

namespace kvist::cli {

namespace {

Result<workload::Trace> generate_kind(const TraceGenerateArguments& arguments) {
  const std::optional<workload::TrafficKind> kind = workload::parse_traffic_kind(arguments.kind);
  if (!kind) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--kind {}: want one of {}", arguments.kind,
                            fmt::join(workload::kTrafficKinds | std::views::transform(workload::to_string), ", ")));
  }
  if (!arguments.workload_file.empty()) {
    return fail(ErrorCode::kInvalidArgument, "--kind and --file: want one of them; a kind has its own lengths");
  }
  for (const auto& [given, option] : {std::pair{arguments.conversations.has_value(), "--conversations"},
                                      std::pair{!arguments.think_time.empty(), "--think-time"}}) {
    if (given) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: is for chats; the size of other traffic is said by --rate and --duration", option));
    }
  }
  workload::TrafficOptions options{.kind = *kind, .seed = arguments.seed.value_or(1)};
  options.starts_per_s = arguments.rate.value_or(options.starts_per_s);
  if (!arguments.duration.empty()) {
    KVIST_TRY(options.duration, parse_duration(arguments.duration, "--duration"));
  }
  return workload::generate_traffic(options);
}

Result<workload::Trace> generate_chats(const TraceGenerateArguments& arguments) {
  for (const auto& [given, option] :
       {std::pair{arguments.rate.has_value(), "--rate"}, std::pair{!arguments.duration.empty(), "--duration"}}) {
    if (given) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: is for --kind; of chats say --conversations, and target_rps (starts a second) in -f",
                              option));
    }
  }
  workload::TraceOptions options;
  if (!arguments.workload_file.empty()) {
    KVIST_TRY(options.workload, spec::load_workload(arguments.workload_file));
  }
  if (arguments.seed) options.workload.seed = *arguments.seed;
  options.conversations = arguments.conversations.value_or(options.conversations);
  if (!arguments.think_time.empty()) {
    KVIST_TRY(options.think_time, parse_duration(arguments.think_time, "--think-time"));
  }
  return workload::generate_trace(options);
}

}  // namespace

Result<void> run_trace_generate(const TraceGenerateArguments& arguments) {
  KVIST_TRY(const workload::Trace trace, arguments.kind.empty() ? generate_chats(arguments) : generate_kind(arguments));
  KVIST_TRY_VOID(workload::write_trace(trace, arguments.output));
  const Duration length = trace.requests.empty() ? Duration(0) : trace.requests.back().at - trace.requests.front().at;
  print_line(fmt::format("trace     {}: {} requests over {:.0f} s", arguments.output, trace.requests.size(),
                         to_seconds(length)));
  return {};
}

}  // namespace kvist::cli
