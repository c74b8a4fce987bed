// Private to perfmodel: an engine behaviour from YAML.
#pragma once

#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/yaml.h"
#include "kvist/perfmodel/coefficient_table.h"
#include "kvist/perfmodel/coefficients.h"

namespace kvist::perfmodel {

/// Reads one document into Coefficients. Lives for the one call of Coefficients::parse().
class EngineReader {
 public:
  [[nodiscard]] Result<Coefficients> read(const YamlNode& root);

 private:
  [[nodiscard]] Result<void> read_head(const YamlNode& root);
  [[nodiscard]] Result<void> read_behaviour(const YamlNode& node);
  [[nodiscard]] Result<void> read_mechanism(const YamlNode& node, const Mechanism& mechanism);
  [[nodiscard]] Result<void> read_coefficient(const YamlNode& map, std::string_view mechanism,
                                              const CoefficientKind& kind);
  [[nodiscard]] Result<void> read_switch(const YamlNode& map, std::string_view mechanism, std::string_view name,
                                         std::string_view meaning);
  [[nodiscard]] Result<void> read_tiles(const YamlNode& node);
  [[nodiscard]] Result<void> read_graph_sizes(const YamlNode& node);

  Coefficients out_;
};

}  // namespace kvist::perfmodel
