// kvist up: a deployment alone, for trying with curl.
#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "kvist/cli/commands.h"
#include "kvist/cli/print.h"
#include "kvist/cli/termination.h"
#include "kvist/deploy/local_deployer.h"
#include "kvist/gateway/mode_from_environment.h"
#include "kvist/net/event_loop.h"
#include "kvist/spec/files.h"

namespace kvist::cli {
namespace {

constexpr Duration kStartTimeout = std::chrono::seconds(60);
constexpr Duration kReadyTimeout = std::chrono::seconds(120);
constexpr Duration kWatchInterval = std::chrono::milliseconds(500);

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
  print_line("Ctrl-C ends it.");
}

/// Runs until the user ends it (no error) or a part dies.
Result<void> run_until_stopped(const spec::DeploymentSpec& deployment, const std::string& directory,
                               const std::stop_token& stop) {
  deploy::LocalDeployer deployer({.run_directory = directory});
  print_line(fmt::format("starting {} workers and a gateway", deployment.workers.size()));
  KVIST_TRY_VOID(deployer.apply(deployment, deploy::Until::after(kStartTimeout, stop)));
  KVIST_TRY_VOID(deployer.await_ready(deploy::Until::after(kReadyTimeout, stop)));
  print_addresses(deployer.addresses(), deployment.gateway, directory);
  while (deploy::sleep_until(net::now() + kWatchInterval, stop)) KVIST_TRY_VOID(deployer.check_alive());
  deployer.stop();
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
  const Termination termination;
  KVIST_TRY(const RunDirectory directory, make_run_directory(arguments.directory));
  auto done = run_until_stopped(deployment, directory.path, termination.token());
  const bool interrupted = !done && done.error().code == ErrorCode::kCancelled;
  if (!done && !interrupted) return done;  // the logs are kept, because the error refers to them
  std::error_code ignored;
  if (directory.temporary) std::filesystem::remove_all(directory.path, ignored);
  return {};
}

}  // namespace kvist::cli
