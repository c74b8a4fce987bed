// kvist trace: traces to replay.
#include <fmt/format.h>

#include "kvist/cli/commands.h"
#include "kvist/cli/duration_argument.h"
#include "kvist/cli/print.h"
#include "kvist/spec/files.h"
#include "kvist/workload/trace_file.h"
#include "kvist/workload/trace_generator.h"

namespace kvist::cli {

Result<void> run_trace_generate(const TraceGenerateArguments& arguments) {
  workload::TraceOptions options;
  if (!arguments.workload_file.empty()) {
    KVIST_TRY(options.workload, spec::load_workload(arguments.workload_file));
  }
  if (arguments.seed) options.workload.seed = *arguments.seed;
  options.conversations = arguments.conversations;
  if (!arguments.think_time.empty()) {
    KVIST_TRY(options.think_time, parse_duration(arguments.think_time, "--think-time"));
  }
  KVIST_TRY(const workload::Trace trace, workload::generate_trace(options));
  KVIST_TRY_VOID(workload::write_trace(trace, arguments.output));
  const Duration length = trace.requests.empty() ? Duration(0) : trace.requests.back().at - trace.requests.front().at;
  print_line(fmt::format("trace     {}: {} requests over {:.0f} s", arguments.output, trace.requests.size(),
                         to_seconds(length)));
  return {};
}

}  // namespace kvist::cli
