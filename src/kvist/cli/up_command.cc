// kvist up: a deployment, a load generator beside it and the dashboard.
#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "kvist/cli/commands.h"
#include "kvist/cli/dashboard_setup.h"
#include "kvist/cli/deployer_factory.h"
#include "kvist/cli/print.h"
#include "kvist/cli/termination.h"
#include "kvist/dashboard/service/dashboard.h"
#include "kvist/deploy/deployer.h"
#include "kvist/deploy/kubernetes_manifests.h"
#include "kvist/gateway/mode_from_environment.h"
#include "kvist/loadgen/load_watch.h"
#include "kvist/net/bearer_key.h"
#include "kvist/net/event_loop.h"
#include "kvist/results/load_input.h"
#include "kvist/spec/files.h"
#include "kvist/sweep/load_generator.h"
#include "kvist/telemetry/log.h"
#include "kvist/workload/load_feed.h"

namespace kvist::cli {
namespace {

constexpr Duration kStartTimeout = std::chrono::seconds(60);
constexpr Duration kReadyTimeout = std::chrono::seconds(120);
constexpr Duration kWatchInterval = std::chrono::milliseconds(500);
constexpr std::uint32_t kFirstConcurrency = 12;  // as the demo's lowest level

/// The folder of the parts' settings and logs: the user's, which is kept, or a temporary one of this run in TMPDIR.
struct RunDirectory {
  std::string path;
  bool temporary = false;
};

Result<RunDirectory> make_run_directory(const std::string& wanted) {
  std::error_code error;
  if (!wanted.empty()) {
    std::filesystem::create_directories(wanted, error);
    if (error) return fail(ErrorCode::kInvalidArgument, fmt::format("--directory {}: {}", wanted, error.message()));
    return RunDirectory{.path = wanted};
  }
  const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  std::string path = (parent / "kvist-up-XXXXXX").string();
  if (error || ::mkdtemp(path.data()) == nullptr) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot make a folder for this run in {}: {}; name one with --directory, or set TMPDIR",
                            error ? "TMPDIR" : parent.string(), error ? error.message() : std::strerror(errno)));
  }
  return RunDirectory{.path = path, .temporary = true};
}

void print_addresses(const deploy::Addresses& addresses, const spec::GatewaySpec& gateway, const std::string& logs) {
  for (const deploy::PartAddress& worker : addresses.workers) {
    print_line(fmt::format("{:<9} {}   administration {}", worker.name, worker.url, worker.admin));
  }
  std::string models;
  for (const spec::ServedModelSpec& model : spec::served_models(gateway))
    models += fmt::format("   model {}, mode {}", model.model, spec::to_string(model.mode));
  print_line(fmt::format("gateway   {}   administration {}{}", addresses.gateway.url, addresses.gateway.admin, models));
  print_line(fmt::format("logs      {}", logs));
  print_line("");
  print_line(fmt::format(
      "curl -N {}/v1/chat/completions -H 'Content-Type: application/json' \\\n"
      "  -d '{{\"model\": \"{}\", \"stream\": true, \"messages\": [{{\"role\": \"user\", \"content\": \"Hello!\"}}]}}'",
      addresses.gateway.url, addresses.models.front()));
  const std::string which =
      gateway.models.empty() ? "" : fmt::format("\"model\": \"{}\", ", gateway.models.front().model);
  print_line(fmt::format(
      "curl -X PUT {}/admin/router_mode -H 'Content-Type: application/json' -d '{{{}\"mode\": \"round_robin\"}}'",
      addresses.gateway.admin, which));
  print_line("");
}

/// The workload of a file that has one, or of a sweep.
Result<spec::WorkloadSpec> workload_of(const std::string& file) {
  if (file.empty()) return spec::WorkloadSpec{};
  auto workload = spec::load_workload(file);
  if (workload) return workload;
  const auto sweep = spec::load_sweep(file);
  if (sweep) return sweep->workload;
  return workload;
}

/// What shows the deployment: the dashboard, and the load generator that it controls.
struct Show {
  std::unique_ptr<dashboard::Dashboard> board;
  std::unique_ptr<sweep::LoadGenerator> load;  // after the board, to which it reports
};

Result<Show> start_show(const UpArguments& arguments, const spec::DeploymentSpec& deployment,
                        const deploy::Addresses& addresses) {
  Show show;
  if (arguments.dashboard.off) return show;
  KVIST_TRY(const spec::WorkloadSpec workload, workload_of(arguments.workload_file));
  KVIST_TRY(workload::LoadInput input, results::load_input(workload.trace));
  const auto watch = std::make_shared<loadgen::LoadWatch>();
  loadgen::ServiceOptions load;
  load.target_url = addresses.gateway.url;
  load.model = addresses.models.front();
  load.workload = workload;
  load.input = std::move(input);
  load.listens = false;
  load.feed = std::make_shared<workload::LoadFeed>();
  dashboard::DashboardOptions options;
  if (!arguments.api_key_file.empty()) {
    KVIST_TRY(load.target.bearer_key, net::read_bearer_key(arguments.api_key_file));
    options.gateway_settings.bearer_key = load.target.bearer_key;
  }
  const bool replays = !workload.trace.file.empty();
  options.host = arguments.host;
  options.port = arguments.port;
  options.facts = {.source = "up",
                   .title = deployment.name,
                   .target = addresses.gateway.url,
                   .model = addresses.models.front(),
                   .time_scale = time_scale_of(deployment.workers)};
  options.facts.abilities = {
      .start_and_stop = true, .concurrency = !replays && !workload.arrivals.is_open(), .rate = !replays, .modes = true};
  options.gateway = addresses.gateway.admin;
  options.load = watch;
  options.passes_control = true;
  options.plan = {.concurrency = arguments.concurrency.value_or(kFirstConcurrency),
                  .rate_per_s = workload.target_rps > 0 ? std::optional(workload.target_rps) : std::nullopt,
                  .seed = workload.seed};
  KVIST_TRY_VOID(read_dashboard(arguments.dashboard, options));
  KVIST_TRY(show.board, dashboard::Dashboard::start(std::move(options)));
  KVIST_TRY(show.load, sweep::LoadGenerator::create(std::move(load), watch));
  print_line("dashboard " + show.board->url());
  print_line("");
  return show;
}

/// Runs until the user ends it (no error) or a part dies.
Result<void> run_until_stopped(const UpArguments& arguments, const spec::DeploymentSpec& deployment,
                               const std::string& directory, const std::stop_token& stop) {
  KVIST_TRY(const std::unique_ptr<deploy::Deployer> deployer, deployer_of(deployment, directory));
  print_line(fmt::format("starting {} workers and a gateway", deployment.workers.size()));
  KVIST_TRY_VOID(deployer->apply(deployment, deploy::Until::after(kStartTimeout, stop)));
  KVIST_TRY_VOID(deployer->await_ready(deploy::Until::after(kReadyTimeout, stop)));
  const std::string logs =
      deployment.kubernetes ? fmt::format("kubectl logs -l {}={}", deploy::kPartOf, deployment.name) : directory;
  print_addresses(deployer->addresses(), deployment.gateway, logs);
  KVIST_TRY(Show show, start_show(arguments, deployment, deployer->addresses()));
  print_line("Ctrl-C ends it.");
  while (deploy::sleep_until(net::now() + kWatchInterval, stop)) KVIST_TRY_VOID(deployer->check_alive());
  show.load.reset();  // first, so that no turn fails because its server ends
  deployer->stop();
  return {};
}

}  // namespace

Result<void> run_up(const UpArguments& arguments) {
  KVIST_TRY(spec::DeploymentSpec deployment, spec::load_deployment(arguments.file));
  // Read here and not in the gateway, because the deployer does not pass these variables to its children.
  KVIST_TRY(deployment.gateway.mode,
            gateway::mode_from_environment(gateway::process_environment, deployment.gateway.mode));
  for (spec::ServedModelSpec& model : deployment.gateway.models) {
    KVIST_TRY(model.mode, gateway::mode_from_environment(gateway::process_environment, model.mode));
  }
  if (arguments.dry_run) {
    if (!deployment.kubernetes)
      return fail(ErrorCode::kInvalidArgument, "--dry-run: the deployment has no `kubernetes`, so it has no manifests");
    KVIST_TRY(const std::string manifests, manifests_of(deployment));
    print_line(manifests);
    return {};
  }
  telemetry::start_logging(telemetry::LogLevel::kWarning, "up");
  const Termination termination;
  KVIST_TRY(const RunDirectory directory, make_run_directory(arguments.directory));
  auto done = run_until_stopped(arguments, deployment, directory.path, termination.token());
  const bool interrupted = !done && done.error().code == ErrorCode::kCancelled;
  if (!done && !interrupted) return done;  // the logs are kept, because the error refers to them
  std::error_code ignored;
  if (directory.temporary) std::filesystem::remove_all(directory.path, ignored);
  return {};
}

}  // namespace kvist::cli
