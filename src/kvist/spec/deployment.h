// The settings of a deployment: workers, the gateway, the model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/base/yaml.h"
#include "kvist/spec/exposure_spec.h"
#include "kvist/spec/kubernetes_deployment_spec.h"
#include "kvist/spec/kubernetes_source_spec.h"
#include "kvist/spec/observation_spec.h"
#include "kvist/spec/peers_spec.h"
#include "kvist/spec/profile_spec.h"
#include "kvist/spec/record_spec.h"
#include "kvist/spec/resilience_spec.h"
#include "kvist/spec/routing_mode.h"
#include "kvist/spec/routing_spec.h"
#include "kvist/spec/scaling_spec.h"
#include "kvist/spec/speculation_spec.h"
#include "kvist/spec/step_time_spec.h"
#include "kvist/spec/tool_call_format.h"

namespace kvist::spec {

/// The length of answers of the timed engine, end-of-turn token included: normal, cut at 2 and at the request's
/// max_tokens.
struct OutputLengthSpec {
  double mean_tokens = 840;
  double standard_deviation_tokens = 100;

  bool operator==(const OutputLengthSpec&) const = default;
};

/// Which waiting request may start, with respect to KV memory (engine/admission.h).
enum class AdmissionKind {
  kReserveToCompletion,  ///< only if it can run to its longest end beside all others: TensorRT-LLM's default
  kGreedy,               ///< if its prompt fits now; when memory runs out the last admitted is recomputed later: vLLM's
};

/// Marks settings that the file leaves out and that follow from the worker's profile or model. perfmodel::resolve(), or
/// the CPU engine, fills them in and clears these marks; until then the fields have their defaults, which are not used.
struct OpenSettings {
  bool kv_blocks = false;            ///< from the memory plan
  bool max_model_len = false;        ///< the default, or the capacity of the KV memory if that is less
  bool max_steps_in_flight = false;  ///< from the engine behaviour, as are the next ones
  bool admission = false;
  bool prefix_deferral = false;
  bool prefix_when_planned = false;

  bool operator==(const OpenSettings&) const = default;
};

/// The type of the weights in memory.
enum class WeightType {
  kAsStored,  ///< BF16 if the checkpoint's matrices are BF16, otherwise F32
  kBf16,
  kF32,
};

/// The type of keys and values in the KV blocks.
enum class CpuKvType {
  kAsWeights,  ///< the type of the weights in memory: BF16 or F32
  kBf16,
  kF16,
  kF32,
};

/// The settings of the CPU engine.
struct CpuEngineSpec {
  std::string model;          ///< directory of a Hugging Face checkpoint of the Llama family
  std::uint32_t threads = 0;  ///< threads that compute; 0: one per core
  WeightType weights = WeightType::kAsStored;
  CpuKvType kv_dtype = CpuKvType::kAsWeights;
  /// The memory for weights, activations and KV blocks together. The KV memory is what remains, unless the worker's
  /// kv_blocks is set.
  std::uint64_t memory_bytes = 4ULL << 30;

  bool operator==(const CpuEngineSpec&) const = default;
};

/// One of kvist's workers: the engine's limits and, for the timed engine, the step-time model.
struct WorkerSpec {
  std::string name = "worker-0";
  std::string model = "kvist-timed";
  Endpoint http;
  /// Where paths are served that change the worker or show its inside: /reset_prefix_cache, /debug/*.
  Endpoint admin;
  CorsSpec cors = {};
  LogSpec log = {};
  ServerTlsSpec tls = {};           ///< of http
  ServerTlsSpec admin_tls = {};     ///< of admin
  std::string api_key_file = {};    ///< the keys that requests must have, one a line; empty: they need none
  HttpLimitsSpec http_limits = {};  ///< of http
  std::uint64_t max_body_bytes = 16ULL << 20;
  std::uint16_t kv_events_port = 0;         ///< ZeroMQ PUB, on http.host
  std::uint16_t kv_replay_port = 0;         ///< ZeroMQ ROUTER, on http.host
  std::string kv_events_topic = {};         ///< first frame of each KV event message; empty by default, as in vLLM
  std::uint32_t kv_events_buffer = 10'000;  ///< messages kept for replays, as vLLM's buffer_steps
  std::string tokenizer = {};  ///< directory of the model whose tokenizer and chat template it uses; empty: bytes
  /// Whether special tokens that users write into chats are special tokens, as in vLLM. If false, they are text, so
  /// that no message can open a turn.
  bool special_tokens_in_messages = false;
  std::optional<ToolCallFormat> tool_parser = {};  ///< how the model writes tool calls; none: they stay text
  std::uint32_t block_size = 32;                   ///< tokens per KV block
  std::uint32_t kv_blocks = 11'500;      ///< 368,000 tokens: one H200 with 70B FP8 weights at a free fraction of 0.90
  std::uint32_t max_batch_size = 64;     ///< batch slots: sequences running at once
  std::uint32_t max_num_tokens = 2'048;  ///< token budget of one step
  std::uint32_t max_model_len = 16'384;  ///< prompt and output tokens of one request
  std::uint32_t max_waiting = 1'024;     ///< queued requests before the worker answers 429
  Duration drain_timeout = std::chrono::seconds(60);  ///< for answers under way when it is asked to end
  std::uint32_t max_steps_in_flight = 1;              ///< 2 = overlap scheduling
  AdmissionKind admission = AdmissionKind::kReserveToCompletion;
  /// A waiting request whose next uncached block the same step computes for another one waits for the next step instead
  /// of computing it twice (TensorRT-LLM).
  bool prefix_deferral = false;
  /// Blocks of a prompt can be found from the step on that computes them, so that requests of one step share them
  /// (vLLM). Of the timed engine only; otherwise after that step.
  bool prefix_when_planned = false;
  /// A step computes at most so many tokens of one prompt while there are other requests, so that several prompts are
  /// computed side by side (vLLM's setting of this name); 0: as many as the budget has.
  std::uint32_t long_prefill_token_threshold = 0;
  double time_scale = 1;                    ///< the timed engine runs this many times faster than the step-time model
  StepTimeSpec step_time;                   ///< used where no profile is named
  std::optional<ProfileSpec> profile = {};  ///< step times, memory and engine behaviour of a GPU
  OpenSettings open = {};                   ///< never set without a profile
  std::optional<CpuEngineSpec> cpu = {};    ///< an engine that computes, in place of the timed one
  SpeculationSpec speculation = {};
  OutputLengthSpec output_length;

  bool operator==(const WorkerSpec&) const = default;
};

/// Limits of an engine that the gateway is told of rather than asks for; 0: what the worker reports, or what its
/// queueing lets infer.
struct UpstreamLimits {
  std::uint32_t max_batch_size = 0;  ///< batch slots
  std::uint32_t kv_blocks = 0;       ///< KV memory, in blocks of the gateway's block size
  std::uint32_t max_num_tokens = 0;  ///< token budget of one step

  bool operator==(const UpstreamLimits&) const = default;
};

/// A worker as the gateway reaches it: any OpenAI-compatible server with vLLM-format KV events.
struct UpstreamSpec {
  std::string name;
  std::string url;        ///< http://host:port or https://host:port
  std::string kv_events;  ///< tcp://host:port; empty where the worker publishes none
  std::string kv_replay;  ///< tcp://host:port; empty where there is no replay
  UpstreamLimits limits = {};
  std::string api_key_file = {};  ///< has the key that the worker asks for; empty: the fleet's, if any
  ClientTlsSpec tls = {};

  bool operator==(const UpstreamSpec&) const = default;
};

/// Workers that a DNS name leads to, one for each address: the name's own (A and AAAA), or those of its services (SRV).
/// Or those behind a Service of Kubernetes.
struct WorkerGroupSpec {
  std::string name;  ///< the workers are called NAME-ADDRESS-PORT, in Kubernetes as their pods
  std::optional<KubernetesSourceSpec> kubernetes = {};  ///< then the next four have no meaning
  std::string dns_name;
  bool services = false;                         ///< SRV records, which have the ports
  std::string dns_server;                        ///< "IPv4:port", "[IPv6]:port"; empty: the system's
  Duration interval = std::chrono::seconds(30);  ///< the longest time between questions; a shorter TTL shortens it
  std::uint16_t port = 0;                        ///< without services; 0 in Kubernetes: the Service's
  bool https = false;
  std::uint16_t kv_events_port = 0;  ///< 0: they publish none
  std::uint16_t kv_replay_port = 0;  ///< 0: there is no replay
  UpstreamLimits limits = {};
  std::string api_key_file = {};  ///< as a worker's, like the next
  ClientTlsSpec tls = {};

  bool operator==(const WorkerGroupSpec&) const = default;
};

/// A model that the gateway serves: its names, its workers, and how requests for it are routed.
struct ServedModelSpec {
  std::string model = "kvist-timed";
  std::vector<std::string> model_aliases = {};  ///< further names under which clients may ask for it
  /// Directory of the model whose tokenizer and chat template the workers use; empty: bytes.
  std::string tokenizer = {};
  RoutingMode mode = RoutingMode::kRoundRobin;
  std::uint32_t block_size = 32;  ///< must equal the workers' block size; events of another are refused, loudly
  std::vector<UpstreamSpec> workers;
  std::vector<WorkerGroupSpec> worker_groups = {};  ///< in the file, elements of `workers` too
  /// Places for workers: those above, and those that come while it runs. 0: see worker_places().
  std::uint32_t max_workers = 0;
  ClientTlsSpec worker_tls = {};         ///< of https workers that come while it runs
  std::string worker_api_key_file = {};  ///< of the workers that have none of their own; empty: KVIST_WORKER_API_KEY
  Duration upstream_timeout = std::chrono::seconds(600);  ///< for one request, whole
  /// Between looks at a worker (/health, /metrics) that is known to be well; requests' answers stand for /health.
  Duration health_interval = std::chrono::seconds(5);
  Duration doubt_interval = std::chrono::seconds(1);  ///< the same while there is doubt: at the start, after a failure
  std::uint32_t max_in_flight = 4'096;                ///< requests; beyond it the answer is 503 with Retry-After
  std::uint32_t max_retries = 2;                      ///< further workers tried before the first byte
  /// Requests have the field `priority` with which they were admitted: the workers schedule by it.
  bool send_priority = false;
  AdmissionSpec admission = {};
  HoldSpec hold = {};
  ScalingSpec scaling = {};
  RetryBudgetSpec retry_budget = {};
  EjectionSpec ejection = {};
  MigrationSpec migration = {};
  Duration model_interval = std::chrono::seconds(30);  ///< between looks at the list of models of a worker that is well
  /// The least time without any sign of life of a worker after which a request that waits for its first byte leaves it.
  Duration silence_timeout = std::chrono::seconds(2);
  /// The longest pause within a begun answer; 0: as long as upstream_timeout allows.
  Duration stream_idle_timeout = std::chrono::seconds(300);
  /// A stream to which nothing was sent for so long gets a comment, also before its answer has begun; 0: none.
  Duration stream_keepalive = {};
  std::uint64_t seed = 1;  ///< of the random routing mode, together with the request id
  /// What the router takes a worker's steps to cost until it has seen them: any value within a factor of a few will do.
  StepTimeSpec latency_prior = {};
  TierWeightsSpec tier_weights = {};
  WarmUpSpec warm_up = {};
  SessionAffinitySpec session_affinity = {};
  ObjectiveSpec objective = {};
  RecordSpec record = {};

  bool operator==(const ServedModelSpec&) const = default;
};

/// The gateway: where it listens, and what it serves. If `models` is empty, it serves one model, which its own settings
/// as a ServedModelSpec describe.
struct GatewaySpec : ServedModelSpec {
  Endpoint http;
  /// Where /admin/* and /metrics are served. A file that gives no port means the one after http's; with port 0 there,
  /// any.
  Endpoint admin;
  CorsSpec cors = {};
  ServerTlsSpec tls = {};        ///< of http
  ServerTlsSpec admin_tls = {};  ///< of admin
  ApiKeysSpec api_keys = {};
  HttpLimitsSpec http_limits = {};
  /// Whether a client's Authorization and other credentials go on to the worker. A worker's own key replaces it.
  bool pass_client_keys = false;
  Duration connect_timeout = std::chrono::seconds(5);  ///< to any worker
  std::uint32_t threads = 0;  ///< that take requests and relay answers; 0: as many as there are cores, at most 8
  Duration drain_timeout = std::chrono::seconds(60);  ///< for answers under way when it is asked to end
  std::uint64_t max_body_bytes = 16ULL << 20;
  LogSpec log = {};
  AccessLogSpec access_log = {};
  OtlpSpec otlp = {};
  PeersSpec peers = {};
  /// The models, by name, each whole: what its element of the file leaves out is the gateway's setting. Then the
  /// gateway's own model, tokenizer, workers and record have no meaning.
  std::vector<ServedModelSpec> models = {};

  bool operator==(const GatewaySpec&) const = default;
};

/// What the gateway serves: `models`, or its own settings alone.
[[nodiscard]] std::vector<ServedModelSpec> served_models(const GatewaySpec& gateway);

/// The number of workers that the model can have at once: `max_workers`, or room for the fleet to double, with 16
/// places at least for those that come, and 64 for each group.
[[nodiscard]] std::size_t worker_places(const ServedModelSpec& model);

/// A whole deployment: `kvist up -f`, and what a sweep starts per mode.
struct DeploymentSpec {
  std::string name = "kvist";
  std::optional<KubernetesDeploymentSpec> kubernetes = {};  ///< where it runs; nothing: as processes of this machine
  GatewaySpec gateway;  ///< `workers` of it is filled from the workers below when they are started
  std::vector<WorkerSpec> workers;

  bool operator==(const DeploymentSpec&) const = default;
};

/// Each reads one mapping of a document: a missing key takes the default above, an unknown one is an error with its
/// line. The default of `max_model_len` shrinks to what `kv_blocks` can hold. Paths are relative to `base_directory`,
/// the folder of the document; "." leaves them as they are.
[[nodiscard]] Result<WorkerSpec> read_worker(const YamlNode& node, const std::string& base_directory = ".");
[[nodiscard]] Result<GatewaySpec> read_gateway(const YamlNode& node, const std::string& base_directory = ".");
/// Reads one element of a model's `workers`. Without a name it has `usual_name`.
[[nodiscard]] Result<UpstreamSpec> read_upstream(const YamlNode& node, const std::string& base_directory,
                                                 const std::string& usual_name);
/// `workers` is either a list of workers, or a mapping with `count` and the settings they share (`name` is then the
/// part before "-0", "-1", ...). Where the gateway names no model, tokenizer or block size, it takes the workers'.
[[nodiscard]] Result<DeploymentSpec> read_deployment(const YamlNode& node, const std::string& base_directory = ".");

/// The YAML that read_worker(), read_gateway() and read_deployment() read back to the same values: how the deployer
/// hands a part its settings. One mapping without a root key, each line indented by `indent` spaces.
[[nodiscard]] std::string to_yaml(const WorkerSpec& worker, int indent = 0);
[[nodiscard]] std::string to_yaml(const GatewaySpec& gateway, int indent = 0);
[[nodiscard]] std::string to_yaml(const DeploymentSpec& deployment, int indent = 0);

}  // namespace kvist::spec
