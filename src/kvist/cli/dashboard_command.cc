// kvist dashboard: stored runs, or a gateway that runs already.
#include <fmt/format.h>

#include <memory>

#include "kvist/cli/commands.h"
#include "kvist/cli/dashboard_setup.h"
#include "kvist/cli/print.h"
#include "kvist/cli/termination.h"
#include "kvist/dashboard/service/dashboard.h"
#include "kvist/deploy/until.h"
#include "kvist/net/bearer_key.h"
#include "kvist/net/event_loop.h"

namespace kvist::cli {
namespace {

std::string title_of(const DashboardCommandArguments& arguments) {
  if (!arguments.gateway.empty()) return arguments.gateway;
  if (arguments.results.size() == 1) return arguments.results.front();
  return fmt::format("{} databases", arguments.results.size());
}

}  // namespace

Result<void> run_dashboard(const DashboardCommandArguments& arguments) {
  const bool live = !arguments.gateway.empty();
  if (!live && arguments.results.empty()) {
    return fail(ErrorCode::kInvalidArgument, "name results databases or folders that hold one, or a --gateway");
  }
  KVIST_TRY_VOID(check_tls(arguments.tls, "--gateway", arguments.gateway));
  dashboard::DashboardOptions options;
  options.host = arguments.host;
  options.port = arguments.port;
  options.facts = {.source = live ? "gateway" : "stored", .title = title_of(arguments)};
  options.facts.abilities.modes = live;
  options.gateway = arguments.gateway;
  options.results = arguments.results;
  if (!arguments.api_key_file.empty()) {
    KVIST_TRY(options.gateway_settings.bearer_key, net::read_bearer_key(arguments.api_key_file));
  }
  KVIST_TRY(options.gateway_settings.tls, load_tls(arguments.tls, arguments.gateway));
  KVIST_TRY_VOID(read_dashboard(arguments.dashboard, options));
  const Termination termination;
  KVIST_TRY(const auto served, dashboard::Dashboard::start(std::move(options)));
  print_line("dashboard " + served->url());
  print_line("Ctrl-C ends it.");
  constexpr Duration kPiece = std::chrono::seconds(1);
  while (deploy::sleep_until(net::now() + kPiece, termination.token())) {
  }
  return {};
}

}  // namespace kvist::cli
