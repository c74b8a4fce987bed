#include "kvist/deploy/dynamo_graph.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "kvist/base/json.h"
#include "kvist/base/json_writer.h"
#include "kvist/kubernetes/answers.h"

namespace kvist::deploy {
namespace {

constexpr std::string_view kContainer = "main";  // the operator's name of a component's container
constexpr std::string_view kVariable = "DYN_ROUTER_MODE";

using Arguments = std::vector<std::string>;

void write_variable(JsonWriter& json, std::string_view name, std::string_view value) {
  json.begin_object().field("name", name).field("value", value).end_object();
}

/// TensorRT-LLM's settings that its command line has no option for. Dynamo calls it a Python dictionary: without true,
/// false and null, JSON is one.
std::string trtllm_overrides(const spec::DynamoGraphSpec& graph, const spec::WorkerSpec& worker) {
  const bool fp8 = worker.profile->kv_dtype == spec::KvDtype::kFp8;
  JsonWriter json;
  json.begin_object().key("kv_cache_config").begin_object();
  json.field("dtype", fp8 ? "fp8" : "auto").end_object();
  if (worker.speculation.enabled && !graph.drafter_path.empty()) {
    json.key("speculative_config").begin_object().field("decoding_type", "Draft_Target");
    json.field("max_draft_len", worker.speculation.draft_tokens);
    json.field("speculative_model_dir", graph.drafter_path).end_object();
  }
  return json.end_object().take();
}

Arguments trtllm_arguments(const spec::DynamoGraphSpec& graph, const spec::WorkerSpec& worker) {
  Arguments arguments{"--model-path", graph.model_path, "--served-model-name", worker.model};
  const auto add = [&](const char* option, const auto& value) {
    arguments.insert(arguments.end(), {option, fmt::format("{}", value)});
  };
  add("--tensor-parallel-size", worker.profile->tensor_parallel);
  add("--max-batch-size", worker.max_batch_size);
  add("--max-num-tokens", worker.max_num_tokens);
  add("--max-seq-len", worker.max_model_len);
  add("--kv-block-size", worker.block_size);
  if (worker.profile->memory_fraction > 0) add("--free-gpu-memory-fraction", worker.profile->memory_fraction);
  add("--override-engine-args", trtllm_overrides(graph, worker));
  arguments.emplace_back("--publish-events-and-metrics");
  return arguments;
}

Arguments vllm_arguments(const spec::DynamoGraphSpec& graph, const spec::WorkerSpec& worker) {
  Arguments arguments{"--model", graph.model_path, "--served-model-name", worker.model};
  const auto add = [&](const char* option, const auto& value) {
    arguments.insert(arguments.end(), {option, fmt::format("{}", value)});
  };
  add("--tensor-parallel-size", worker.profile->tensor_parallel);
  add("--max-num-seqs", worker.max_batch_size);
  add("--max-num-batched-tokens", worker.max_num_tokens);
  add("--max-model-len", worker.max_model_len);
  if (worker.long_prefill_token_threshold > 0)
    add("--long-prefill-token-threshold", worker.long_prefill_token_threshold);
  add("--block-size", worker.block_size);
  if (worker.profile->memory_fraction > 0) add("--gpu-memory-utilization", worker.profile->memory_fraction);
  add("--kv-cache-dtype", worker.profile->kv_dtype == spec::KvDtype::kFp8 ? "fp8" : "auto");
  arguments.emplace_back("--enable-prefix-caching");
  if (worker.speculation.enabled && !graph.drafter_path.empty()) {
    JsonWriter json;
    json.begin_object().field("model", graph.drafter_path);
    json.field("num_speculative_tokens", worker.speculation.draft_tokens).end_object();
    add("--speculative-config", json.take());
  }
  add("--kv-events-config", R"({"publisher":"zmq","endpoint":"tcp://*:20080","enable_kv_cache_events":true})");
  return arguments;
}

void write_texts(JsonWriter& json, std::string_view key, const Arguments& texts) {
  json.key(key).begin_array();
  for (const std::string& text : texts) json.value(text);
  json.end_array();
}

void write_frontend(JsonWriter& json, const spec::DynamoTargetSpec& dynamo, std::string_view router_mode,
                    std::uint32_t block_size) {
  json.begin_object().field("name", dynamo.frontend);
  if (dynamo.graph) json.field("type", "frontend").field("replicas", 1);
  json.key("podTemplate").begin_object().key("spec").begin_object().key("containers").begin_array();
  json.begin_object().field("name", kContainer);
  if (dynamo.graph) json.field("image", dynamo.graph->image);
  json.key("env").begin_array();
  write_variable(json, kVariable, router_mode);
  if (dynamo.graph) write_variable(json, "DYN_KV_CACHE_BLOCK_SIZE", std::to_string(block_size));
  json.end_array().end_object().end_array().end_object().end_object().end_object();
}

void write_workers(JsonWriter& json, const spec::DynamoGraphSpec& graph, const spec::WorkerSpec& worker,
                   std::size_t replicas) {
  const bool trtllm = graph.backend == spec::DynamoBackend::kTrtllm;
  json.begin_object().field("name", "Worker").field("type", "worker").field("replicas", replicas);
  json.key("podTemplate").begin_object().key("spec").begin_object().key("containers").begin_array();
  json.begin_object().field("name", kContainer).field("image", graph.image);
  write_texts(json, "command", {"python3", "-m", trtllm ? "dynamo.trtllm" : "dynamo.vllm"});
  write_texts(json, "args", trtllm ? trtllm_arguments(graph, worker) : vllm_arguments(graph, worker));
  json.key("resources").begin_object().key("limits").begin_object();
  json.field("nvidia.com/gpu", std::to_string(worker.profile->tensor_parallel)).end_object().end_object();
  if (!graph.models_claim.empty()) {
    json.key("volumeMounts").begin_array().begin_object().field("name", "models");
    json.field("mountPath", "/models").field("readOnly", true).end_object().end_array();
  }
  json.end_object().end_array();
  if (!graph.models_claim.empty()) {
    json.key("volumes").begin_array().begin_object().field("name", "models").key("persistentVolumeClaim");
    json.begin_object().field("claimName", graph.models_claim).field("readOnly", true);
    json.end_object().end_object().end_array();
  }
  json.end_object().end_object().end_object();
}

Result<void> check_graph(const spec::DeploymentSpec& deployment) {
  if (deployment.workers.empty())
    return fail(ErrorCode::kInvalidArgument, "target.dynamo.graph: the deployment has no workers");
  if (!deployment.workers.front().profile)
    return fail(ErrorCode::kInvalidArgument,
                "target.dynamo.graph: the deployment's workers need a profile, which says their GPUs and memory");
  for (const spec::WorkerSpec& worker : deployment.workers) {
    if (worker.long_prefill_token_threshold > 0 && worker.profile && worker.profile->engine != "vllm")
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("target.dynamo.graph: long_prefill_token_threshold is a setting of vLLM, which {} does not "
                      "have: leave it out",
                      worker.profile->engine));
  }
  return {};
}

}  // namespace

Result<std::string_view> dynamo_router_mode(spec::RoutingMode mode) {
  switch (mode) {
    case spec::RoutingMode::kRoundRobin:
      return "round-robin";
    case spec::RoutingMode::kRandom:
      return "random";
    case spec::RoutingMode::kLeastLoaded:
      return "least-loaded";
    case spec::RoutingMode::kPowerOfTwo:
      return "power-of-two";
    case spec::RoutingMode::kKv:
    case spec::RoutingMode::kDynamo:
      return "kv";
    default:
      return fail(ErrorCode::kUnsupported,
                  fmt::format("{} is no mode of Dynamo's frontend: it has round_robin, random, least_loaded, "
                              "power_of_two and kv",
                              to_string(mode)));
  }
}

Result<std::string> dynamo_manifest(const spec::DynamoTargetSpec& dynamo, const spec::DeploymentSpec& deployment,
                                    const std::string& name_space, spec::RoutingMode mode, int indent) {
  KVIST_TRY(const std::string_view router_mode, dynamo_router_mode(mode));
  if (dynamo.graph) KVIST_TRY_VOID(check_graph(deployment));
  JsonWriter json(indent);
  json.begin_object().field("apiVersion", "nvidia.com/v1beta1").field("kind", "DynamoGraphDeployment");
  json.key("metadata").begin_object().field("name", dynamo.name).field("namespace", name_space).end_object();
  json.key("spec").begin_object();
  if (dynamo.graph) {
    const bool trtllm = dynamo.graph->backend == spec::DynamoBackend::kTrtllm;
    json.field("backendFramework", trtllm ? "trtllm" : "vllm");
  }
  json.key("components").begin_array();
  write_frontend(json, dynamo, router_mode, dynamo.graph ? deployment.workers.front().block_size : 0);
  if (dynamo.graph) write_workers(json, *dynamo.graph, deployment.workers.front(), deployment.workers.size());
  json.end_array().end_object().end_object();
  return json.take();
}

Result<GraphReadiness> read_graph_readiness(std::string_view object) {
  constexpr std::int64_t kMost = INT64_MAX;
  JsonDocument document({.name = "DynamoGraphDeployment"});
  KVIST_TRY(const JsonObject root, document.parse_object(object));
  KVIST_TRY(const JsonObject metadata, root.require_object("metadata"));
  GraphReadiness read;
  KVIST_TRY(const auto generation, metadata.find_int("generation", 0, kMost));
  read.generation = generation.value_or(0);
  KVIST_TRY(const auto status, root.find_object("status"));
  if (!status) return read;  // nobody has looked at it yet
  KVIST_TRY(const auto observed, status->find_int("observedGeneration", 0, kMost));
  read.observed = observed.value_or(0);
  read.state = kubernetes::text_in(*status, "state");
  KVIST_TRY(const auto conditions, status->find_array("conditions"));
  if (!conditions) return read;
  for (const JsonValue value : *conditions) {
    KVIST_TRY(const JsonObject condition, value.as_object());
    if (kubernetes::text_in(condition, "type") != "Ready") continue;
    read.ready = kubernetes::text_in(condition, "status") == "True";
    read.reason = kubernetes::text_in(condition, "reason");
    read.message = kubernetes::text_in(condition, "message");
  }
  return read;
}

}  // namespace kvist::deploy
