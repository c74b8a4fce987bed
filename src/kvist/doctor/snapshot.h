// The facts of an examination.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/gateway/tokenizer_check.h"
#include "kvist/spec/routing_mode.h"

namespace kvist::doctor {

/// What a worker's page of metrics says of its engine.
struct EngineFacts {
  enum class Kind : std::uint8_t { kUnknown, kKvist, kVllm, kSglang };
  Kind kind = Kind::kUnknown;
  std::uint32_t block_size = 0;             ///< 0: not told
  std::optional<bool> prefix_caching = {};  ///< nothing: not told
};
/// Errors: it is no page of metrics.
[[nodiscard]] Result<EngineFacts> read_engine_facts(std::string_view page);

/// One of a worker's two ports for KV events.
struct EventPort {
  std::string address = {};  ///< tcp://host:port; empty: not configured
  std::string problem = {};  ///< empty: a ZeroMQ socket answers there, or it was not tried
};

/// A worker as the running gateway sees it.
struct GatewayView {
  std::string state = {};         ///< a word of gateway/worker_state.h
  std::string last_problem = {};  ///< empty: none yet
  std::string trust = {};         ///< "none", "predicted", "exact"
  bool events_whole = false;
  bool events_silent = false;
  std::string tokenizer = {};  ///< "unknown", "same", "different", "not_told"
  std::string model_match = {};
  double gaps = 0;  ///< in its event stream, as the next: counts
  double resets = 0;
  double unreadable = 0;  ///< batches of events
};

struct WorkerFacts {
  std::string name = {};
  std::string url = {};
  std::string problem = {};                ///< it does not answer; empty: it does
  int health_status = 0;                   ///< of GET /health; 0: no answer
  int models_status = 0;                   ///< of GET /v1/models
  std::vector<std::string> models = {};    ///< that it serves
  std::vector<std::string> adapters = {};  ///< those of them that are adapters (LoRA) of another one
  std::uint32_t max_model_len = 0;         ///< of the gateway's model; 0: not told
  int metrics_status = 0;                  ///< of GET /metrics
  EngineFacts engine = {};
  std::optional<double> clock_ahead_s = {};  ///< of its Date field against this machine; nothing: it has none
  EventPort events = {};
  EventPort replay = {};
  std::optional<gateway::TokenizerMatch> tokenizer = {};  ///< nothing: not examined
  std::optional<GatewayView> seen = {};
};

/// A port that the file wants to listen on.
struct PortFacts {
  std::string what = {};     ///< "gateway.http"
  std::string address = {};  ///< "127.0.0.1:8000"
  std::string problem = {};  ///< empty: it is free
  bool by_gateway = false;   ///< a kvist gateway has it already
};

/// A DNS name of workers.
struct DnsFacts {
  std::string group = {};
  std::string name = {};
  std::string problem = {};  ///< empty: it has addresses
  std::size_t addresses = 0;
  std::size_t unexamined = 0;  ///< of these, those that nobody asked, because they are too many
};

/// A Service or InferencePool of Kubernetes whose endpoints are workers.
struct ClusterFacts {
  std::string group = {};
  std::string service = {};  ///< or the pool
  std::string name_space = {};
  std::string server = {};                  ///< the API server's URL
  bool answers = false;                     ///< the API server does
  std::vector<std::string> forbidden = {};  ///< of what the gateway needs: "watch pods"
  std::string problem = {};                 ///< empty: all was answered
  std::string objects = {};                 ///< that were found: "2 EndpointSlices"
  std::size_t workers = 0;
};

struct MachineFacts {
  std::uint64_t descriptors = 0;  ///< that a process may have open, at most; 0: unknown, as the next
  std::uint64_t somaxconn = 0;
  std::uint64_t local_ports = 0;  ///< for connections that this machine opens
};

struct Snapshot {
  std::string model = {};
  std::uint32_t block_size = 0;
  bool uses_events = false;  ///< the routing mode looks at the workers' KV events
  std::string mode = {};
  std::uint64_t connections = 0;  ///< of clients, that the settings allow; 0: nothing is said of clients
  std::vector<WorkerFacts> workers = {};
  std::vector<DnsFacts> dns = {};
  std::vector<ClusterFacts> clusters = {};
  std::vector<PortFacts> ports = {};
  std::vector<std::pair<std::string, std::string>> files = {};     ///< setting and what is wrong with the file it names
  std::vector<std::pair<std::string, std::string>> profiles = {};  ///< setting and why its worker cannot be started
  MachineFacts machine = {};
  bool runs = false;                         ///< the gateway was asked, not its file
  std::optional<double> clock_ahead_s = {};  ///< the gateway's
  double open_descriptors = 0;               ///< of the gateway, as the next; 0: not told
  double max_descriptors = 0;
  double exhaustions = 0;                    ///< calls without a socket
  double lost_lines = 0;                     ///< of access log and record
  std::optional<bool> peers_connected = {};  ///< to the other gateways; nothing: it is to have none, as the next
  std::optional<bool> peers_share_decisions = {};
  double peer_namesakes = 0;     ///< messages of another gateway that has its name
  double peer_parts_wanted = 0;  ///< workers whose caches are known to no gateway of the group
  double peer_other_keys = 0;    ///< times a gateway of the group had another block size or model
  double peer_elsewhere = 0;     ///< requests of other gateways at workers that this one does not know
  /// The gateway's models after the first one, which is the one above: only what is said of a model is set in them.
  std::vector<Snapshot> further = {};
};

/// Whether a mode looks at what workers cache.
[[nodiscard]] bool uses_events(spec::RoutingMode mode);

/// Takes what the gateway's /admin/status says. The page of metrics belongs to the same moment. Errors: one of them is
/// not a gateway's.
[[nodiscard]] Result<Snapshot> read_gateway_facts(std::string_view status, std::string_view metrics);

}  // namespace kvist::doctor
