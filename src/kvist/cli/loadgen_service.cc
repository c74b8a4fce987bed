#include "kvist/cli/loadgen_service.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvist/net/bearer_key.h"
#include "kvist/net/source_addresses.h"

namespace kvist::cli {

bool has_dashboard(const LoadgenArguments& arguments) {
  return !arguments.dashboard.off;
}

Result<loadgen::ServiceOptions> service_options(const LoadgenArguments& arguments, const LoadOrder& order) {
  loadgen::ServiceOptions options;
  options.target_url = arguments.target;
  if (!arguments.api_key_file.empty()) {
    KVIST_TRY(options.target.bearer_key, net::read_bearer_key(arguments.api_key_file));
  }
  KVIST_TRY(options.target.tls, load_tls(arguments.tls, arguments.target));
  options.model = arguments.model;
  options.http = {arguments.host, arguments.port.value_or(0)};
  // The dashboard has the listener, if there is one.
  options.listens = !has_dashboard(arguments);
  if (options.listens) {
    KVIST_TRY(options.tls, load_listener(arguments.dashboard.listen));
  }
  if (has_dashboard(arguments)) options.feed = std::make_shared<workload::LoadFeed>();
  options.workload = order.workload;
  options.input = order.input;
  options.max_turns = arguments.requests;
  options.headers = order.headers;
  options.prompt_ids = order.prompt_ids;
  options.count_tokens = order.count_tokens;
  if (!arguments.source_addresses.empty()) {
    Result<std::vector<std::string>> addresses = net::parse_source_addresses(arguments.source_addresses);
    if (!addresses) return std::unexpected(std::move(addresses).error().in("--source-addresses"));
    if (Result<void> good = net::check_source_addresses(*addresses); !good) {
      return std::unexpected(std::move(good).error().in("--source-addresses"));
    }
    options.source_addresses = *std::move(addresses);
  }
  if (order.prompt_ids) options.path = "/v1/completions";
  if (!arguments.path.empty()) options.path = arguments.path;
  return options;
}

}  // namespace kvist::cli
