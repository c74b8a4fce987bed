// One load on several agents, over the network.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/loadgen/agents/agent_dialogue.h"
#include "kvist/loadgen/agents/coordination.h"
#include "kvist/loadgen/controlled_load.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_client.h"
#include "kvist/net/http_server.h"
#include "kvist/net/tls.h"
#include "kvist/spec/deployment.h"
#include "kvist/spec/workload.h"

namespace kvist::loadgen {

struct RemoteLoadOptions {
  std::vector<std::string> agents;  ///< host:port, http://host:port or https://host:port
  net::ServerSettings server = {};  ///< their key and certificate
  CoordinatedLoad load;
  spec::WorkloadSpec workload;
  std::uint32_t level = 0;  ///< of start()
  std::uint64_t seed = 0;
  std::optional<Duration> duration = {};     ///< after which the agents send nothing new, by themselves
  std::optional<spec::Endpoint> http = {};   ///< of the control API; nothing: there is none
  std::shared_ptr<net::TlsServer> tls = {};  ///< of that
};

/// The base URLs of agents as a command names them: with commas between them. Errors: none, one twice, too many, or
/// one that is no address.
[[nodiscard]] Result<std::vector<std::string>> parse_agents(const std::string& text);
/// The same of addresses one by one.
[[nodiscard]] Result<std::vector<std::string>> agent_urls(const std::vector<std::string>& addresses);
/// Their key (the first line of a file; empty: none) and the authorities of their certificates (empty: the system's).
/// Errors: those of the files.
[[nodiscard]] Result<net::ServerSettings> agent_settings(const std::vector<std::string>& urls,
                                                         const std::string& key_file, const std::string& ca);

/// Coordinates agents. It is started once; changes hold at one instant for all agents, in a moment. Samples and the
/// client's figures are whole when the load has ended or stopped has been called. Threads: the loop's.
class RemoteLoad : public ControlledLoad {
 public:
  [[nodiscard]] static Result<std::unique_ptr<RemoteLoad>> create(net::EventLoop& loop, RemoteLoadOptions options);

  /// Readies the agents, then calls `ready`, from the loop; with an error if the load cannot be started.
  virtual void open(std::function<void(Result<void>)> ready) = 0;
  [[nodiscard]] virtual const Coordination& coordination() const = 0;
};

}  // namespace kvist::loadgen
