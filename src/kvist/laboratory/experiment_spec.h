// The published experiments, and what each one's document observes, as data.
#pragma once

#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/yaml.h"

namespace kvist::laboratory {

/// Something a document observes, expects or explains, as a predicate over figures (laboratory/expression.h).
struct Observation {
  enum class Kind {
    kObserved,   ///< the document measured it
    kExpected,   ///< the document expects it
    kExplained,  ///< the document gives it as a cause
    kFound,      ///< the document does not mention it; the model shows it
  };
  std::string id;
  Kind kind = Kind::kObserved;
  std::string claim;
  std::string holds_if;
  std::string shows;         ///< the evidence, a text with {{figures}}
  std::string mechanism;     ///< the reason, a text with {{figures}}; may be empty
  bool on_published = true;  ///< the predicate is also evaluated on the published figures
};
[[nodiscard]] std::string_view to_string(Observation::Kind kind);

/// A further sweep that changes one thing.
struct Counterfactual {
  std::string name;  ///< of its sweep file and results folder
  std::string what;  ///< in words: "128 batch slots"
};

/// One experiment: folder and reference have its name.
struct Experiment {
  std::string name;
  std::string title;
  std::vector<Counterfactual> counterfactuals;
  std::vector<Observation> observations;
  std::string notes;  ///< Markdown with {{figures}}
};

/// Reads the manifest (examples/experiments/experiments.yaml) and, for each experiment in it, NAME/observations.yaml
/// and NAME/notes.md in the same folder; either file may be absent.
[[nodiscard]] Result<std::vector<Experiment>> load_experiments(const std::string& manifest);
[[nodiscard]] Result<std::vector<Observation>> read_observations(const YamlNode& root);

}  // namespace kvist::laboratory
