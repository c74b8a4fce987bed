// Drives a part of a load for a coordinator on another machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/loadgen/agents/agent_messages.h"
#include "kvist/loadgen/service.h"
#include "kvist/net/bearer_key.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/tls.h"
#include "kvist/spec/deployment.h"

namespace kvist::loadgen {

/// A load that was ordered, as this agent would drive it by itself.
struct AgentOrder {
  ServiceOptions options;
  std::uint32_t level = 0;  ///< of Load::start()
  std::uint64_t seed = 0;
};
/// Reads what a coordinator ordered. Runs on a thread of its own.
using ReadAgentOrder = std::function<Result<AgentOrder>(const std::string& json)>;

/// SHA-256 of workload::schedule_sample(), in hexadecimal digits. Requires: `texts` are of the order's load.
[[nodiscard]] std::string schedule_digest(const AgentOrder& order, const std::shared_ptr<const workload::Mix>& texts);

struct AgentOptions {
  spec::Endpoint http;
  std::shared_ptr<net::TlsServer> tls = {};  ///< null: plain HTTP
  std::optional<net::BearerKeys> keys = {};  ///< one of which a coordinator has to send; nothing: none is asked for
  std::uint32_t threads = 1;                 ///< that drive the load
  std::filesystem::path folder;              ///< for the files that are sent; it exists, and nothing else is in it
  ReadAgentOrder read_order;
  /// A load of which the coordinator has not asked for so long is given up: nobody wants it any more.
  Duration lease = std::chrono::seconds(30);
};

/// The listener of an agent (agent_messages.h). One load at a time: another coordinator's is refused until the first is
/// released, or its coordinator is silent for the lease. The load has threads of its own, so that questions do not
/// disturb it. Bounded: bodies, files, connections, samples that wait. Threads: the loop's.
class Agent {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Agent>> create(net::EventLoop& loop, AgentOptions options);
  virtual ~Agent() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  [[nodiscard]] virtual AgentState state() const = 0;
};

}  // namespace kvist::loadgen
