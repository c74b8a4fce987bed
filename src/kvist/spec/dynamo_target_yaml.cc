#include "kvist/spec/dynamo_target_yaml.h"

#include <array>

#include "kvist/spec/fields.h"

namespace kvist::spec {
namespace {

constexpr std::array<Word<DynamoBackend>, 2> kBackends = {
    {{"trtllm", DynamoBackend::kTrtllm}, {"vllm", DynamoBackend::kVllm}}};

Result<DynamoGraphSpec> read_graph(const YamlNode& node) {
  DynamoGraphSpec graph;
  for (const char* needed : {"backend", "image", "model_path"}) KVIST_TRY_VOID(node.require(needed));
  KVIST_TRY_VOID(read_word(node, "backend", kBackends, graph.backend));
  KVIST_TRY_VOID(read_field(node, "image", graph.image));
  KVIST_TRY_VOID(read_field(node, "model_path", graph.model_path));
  KVIST_TRY_VOID(read_field(node, "drafter_path", graph.drafter_path));
  KVIST_TRY_VOID(read_name(node, "models_claim", graph.models_claim));
  KVIST_TRY_VOID(node.finish());
  return graph;
}

}  // namespace

Result<DynamoTargetSpec> read_dynamo_target(const YamlNode& node, const std::string& base_directory) {
  DynamoTargetSpec dynamo;
  KVIST_TRY_VOID(node.require("name"));
  KVIST_TRY_VOID(read_name(node, "name", dynamo.name));
  KVIST_TRY_VOID(read_name(node, "namespace", dynamo.name_space));
  KVIST_TRY_VOID(read_path(node, "kubeconfig", base_directory, dynamo.kubeconfig));
  KVIST_TRY_VOID(read_name(node, "frontend", dynamo.frontend));
  KVIST_TRY_VOID(read_name(node, "field_manager", dynamo.field_manager));
  KVIST_TRY_VOID(read_field(node, "force", dynamo.force));
  KVIST_TRY_VOID(read_field(node, "ready_timeout", dynamo.ready_timeout, std::chrono::seconds(1)));
  KVIST_TRY_VOID(read_field(node, "warm_up_requests", dynamo.warm_up_requests, 0, 10'000));
  if (const auto graph = node.get("graph")) {
    KVIST_TRY(dynamo.graph, read_graph(*graph));
  }
  KVIST_TRY_VOID(node.finish());
  return dynamo;
}

void write_dynamo_target(YamlWriter& out, const DynamoTargetSpec& dynamo) {
  out.begin_map("dynamo").field("name", dynamo.name);
  if (!dynamo.name_space.empty()) out.field("namespace", dynamo.name_space);
  if (!dynamo.kubeconfig.empty()) out.field("kubeconfig", dynamo.kubeconfig);
  out.field("frontend", dynamo.frontend).field("field_manager", dynamo.field_manager).field("force", dynamo.force);
  out.field("ready_timeout", dynamo.ready_timeout).field("warm_up_requests", dynamo.warm_up_requests);
  if (dynamo.graph) {
    out.begin_map("graph").field("backend", word_of(kBackends, dynamo.graph->backend));
    out.field("image", dynamo.graph->image).field("model_path", dynamo.graph->model_path);
    if (!dynamo.graph->drafter_path.empty()) out.field("drafter_path", dynamo.graph->drafter_path);
    if (!dynamo.graph->models_claim.empty()) out.field("models_claim", dynamo.graph->models_claim);
    out.end_map();
  }
  out.end_map();
}

}  // namespace kvist::spec
