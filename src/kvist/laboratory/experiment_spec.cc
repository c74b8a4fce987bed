#include "kvist/laboratory/experiment_spec.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "kvist/base/input_file.h"

namespace kvist::laboratory {
namespace {

constexpr std::uintmax_t kMaxNotesBytes = 1 << 20;
constexpr std::array kKinds = {Observation::Kind::kObserved, Observation::Kind::kExpected,
                               Observation::Kind::kExplained, Observation::Kind::kFound};

Result<void> read_text(const YamlNode& map, std::string_view key, bool required, std::string& text) {
  const std::optional<YamlNode> node = map.get(key);
  if (!node) {
    if (!required) return {};
    KVIST_TRY_VOID(map.require(key));
  }
  KVIST_TRY(text, node->as_string());
  return {};
}

Result<Observation::Kind> read_kind(const YamlNode& node) {
  KVIST_TRY(const std::string word, node.as_string());
  for (const Observation::Kind kind : kKinds) {
    if (word == to_string(kind)) return kind;
  }
  return std::unexpected(node.error(fmt::format("\"{}\"; known are: observed, expected, explained, found", word)));
}

Result<Observation> read_observation(const YamlNode& node) {
  Observation observation;
  KVIST_TRY_VOID(read_text(node, "id", true, observation.id));
  if (const std::optional<YamlNode> kind = node.get("kind")) {
    KVIST_TRY(observation.kind, read_kind(*kind));
  }
  KVIST_TRY_VOID(read_text(node, "claim", true, observation.claim));
  KVIST_TRY_VOID(read_text(node, "holds_if", true, observation.holds_if));
  KVIST_TRY_VOID(read_text(node, "shows", true, observation.shows));
  KVIST_TRY_VOID(read_text(node, "mechanism", false, observation.mechanism));
  if (const std::optional<YamlNode> published = node.get("on_published")) {
    KVIST_TRY(observation.on_published, published->as_bool());
  }
  KVIST_TRY_VOID(node.finish());
  return observation;
}

Result<Counterfactual> read_counterfactual(const YamlNode& node) {
  Counterfactual counterfactual;
  KVIST_TRY_VOID(read_text(node, "name", true, counterfactual.name));
  KVIST_TRY_VOID(read_text(node, "what", true, counterfactual.what));
  KVIST_TRY_VOID(node.finish());
  return counterfactual;
}

Result<Experiment> read_experiment(const YamlNode& node, const std::filesystem::path& folder) {
  Experiment experiment;
  KVIST_TRY_VOID(read_text(node, "name", true, experiment.name));
  KVIST_TRY_VOID(read_text(node, "title", true, experiment.title));
  if (const std::optional<YamlNode> list = node.get("counterfactuals")) {
    KVIST_TRY(const std::vector<YamlNode> nodes, list->elements());
    for (const YamlNode& entry : nodes) {
      KVIST_TRY(Counterfactual counterfactual, read_counterfactual(entry));
      experiment.counterfactuals.push_back(std::move(counterfactual));
    }
  }
  KVIST_TRY_VOID(node.finish());
  const std::filesystem::path own = folder / experiment.name;
  if (std::filesystem::exists(own / "observations.yaml")) {
    KVIST_TRY(const YamlNode root, YamlNode::load((own / "observations.yaml").string()));
    KVIST_TRY(experiment.observations, read_observations(root));
  }
  if (std::filesystem::exists(own / "notes.md")) {
    KVIST_TRY(experiment.notes, read_file(own / "notes.md", kMaxNotesBytes));
  }
  return experiment;
}

}  // namespace

std::string_view to_string(Observation::Kind kind) {
  switch (kind) {
    case Observation::Kind::kObserved:
      return "observed";
    case Observation::Kind::kExpected:
      return "expected";
    case Observation::Kind::kExplained:
      return "explained";
    case Observation::Kind::kFound:
      return "found";
  }
  return "observed";
}

Result<std::vector<Observation>> read_observations(const YamlNode& root) {
  KVIST_TRY(const YamlNode list, root.require("observations"));
  KVIST_TRY_VOID(root.finish());
  KVIST_TRY(const std::vector<YamlNode> nodes, list.elements());
  std::vector<Observation> observations;
  for (const YamlNode& node : nodes) {
    KVIST_TRY(Observation observation, read_observation(node));
    observations.push_back(std::move(observation));
  }
  return observations;
}

Result<std::vector<Experiment>> load_experiments(const std::string& manifest) {
  KVIST_TRY(const YamlNode root, YamlNode::load(manifest));
  KVIST_TRY(const YamlNode list, root.require("experiments"));
  KVIST_TRY_VOID(root.finish());
  KVIST_TRY(const std::vector<YamlNode> nodes, list.elements());
  std::vector<Experiment> experiments;
  for (const YamlNode& node : nodes) {
    KVIST_TRY(Experiment experiment, read_experiment(node, std::filesystem::path(manifest).parent_path()));
    experiments.push_back(std::move(experiment));
  }
  return experiments;
}

}  // namespace kvist::laboratory
