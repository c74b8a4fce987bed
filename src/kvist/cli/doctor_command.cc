// kvist doctor: what is wrong with a file or a running deployment.
#include <fmt/format.h>

#include <vector>

#include "kvist/cli/commands.h"
#include "kvist/cli/duration_argument.h"
#include "kvist/cli/print.h"
#include "kvist/doctor/collector.h"
#include "kvist/doctor/examine.h"
#include "kvist/net/bearer_key.h"
#include "kvist/telemetry/log.h"

namespace kvist::cli {

Result<void> run_doctor(const DoctorArguments& arguments) {
  telemetry::start_logging(telemetry::LogLevel::kError, "doctor");
  if (arguments.file.empty() == arguments.gateway.empty())
    return fail(ErrorCode::kInvalidArgument, "needs either --file or --gateway");
  KVIST_TRY_VOID(check_tls(arguments.tls, "--gateway", arguments.gateway));
  doctor::CollectOptions options;
  KVIST_TRY(options.tls, load_tls(arguments.tls, arguments.gateway));
  if (!arguments.timeout.empty()) {
    KVIST_TRY(options.timeout, parse_duration(arguments.timeout, "--timeout"));
  }
  if (arguments.alive) {
    KVIST_TRY_VOID(doctor::ask_whether_alive(arguments.gateway, options));
    print_line("alive");
    return {};
  }
  if (!arguments.api_key_file.empty()) {
    KVIST_TRY(options.api_key, net::read_bearer_key(arguments.api_key_file));
  }
  const std::string& subject = arguments.file.empty() ? arguments.gateway : arguments.file;
  KVIST_TRY(const doctor::Snapshot snapshot, arguments.file.empty()
                                                 ? doctor::collect_from_gateway(arguments.gateway, options)
                                                 : doctor::collect_from_file(arguments.file, options));
  const std::vector<doctor::Finding> findings = doctor::examine(snapshot);
  print_line(arguments.json ? doctor::findings_json(subject, findings) : doctor::findings_text(subject, findings));
  const std::size_t errors = doctor::count(findings, doctor::Severity::kError);
  if (errors == 0) return {};
  return fail(ErrorCode::kInvalidArgument, fmt::format("{} error{}", errors, errors == 1 ? "" : "s"));
}

}  // namespace kvist::cli
