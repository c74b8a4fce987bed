#include "kvist/cli/duration_argument.h"

#include "kvist/base/yaml.h"

namespace kvist::cli {

Result<Duration> parse_duration(const std::string& text, std::string_view option) {
  KVIST_TRY(const YamlNode node, YamlNode::parse(text, std::string(option)));
  return node.as_duration();
}

}  // namespace kvist::cli
