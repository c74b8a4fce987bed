#include "kvist/gateway/shared_parts.h"

#include <random>
#include <utility>

#include "kvist/net/time_of_day.h"

namespace kvist::gateway {

SharedParts::SharedParts(net::EventLoop& loop, spec::GatewaySpec gateway_spec,
                         std::map<std::string, net::ServerSettings> worker_servers,
                         std::unique_ptr<RequestReporter> reporting, std::unique_ptr<PeerLink> link)
    : spec(std::move(gateway_spec)),
      started_unix_s(net::unix_seconds()),
      home(std::make_shared<RoutingHome>(&loop)),
      reporter(std::move(reporting)),
      peers(std::move(link)),
      servers(std::move(worker_servers)),
      client(loop, client_options(spec, servers)),
      door(reporter.get()),
      dialects(loop, door) {}

net::HttpClientOptions SharedParts::client_options(const spec::GatewaySpec& gateway,
                                                   std::map<std::string, net::ServerSettings> servers) {
  net::HttpClientOptions options;
  options.connect_timeout = gateway.connect_timeout;
  options.servers = std::move(servers);
  return options;
}

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) ^ device();
}

}  // namespace kvist::gateway
