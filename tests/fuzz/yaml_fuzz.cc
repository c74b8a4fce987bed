// fuzz: base
// The YAML reader: any bytes give a tree that can be read whole, or an error.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/base/yaml.h"

namespace {

void read_all(const kvist::YamlNode& root) {
  std::vector<kvist::YamlNode> open{root};
  while (!open.empty()) {
    const kvist::YamlNode node = open.back();
    open.pop_back();
    (void)node.as_string();
    (void)node.as_bool();
    (void)node.as_int(-5, 5);
    (void)node.as_double(-5, 5);
    (void)node.as_duration();
    (void)node.as_bytes();
    (void)node.error("what");
    if (node.is_sequence()) {
      const auto elements = node.elements().value();
      open.insert(open.end(), elements.begin(), elements.end());
    } else if (node.is_map()) {
      const auto entries = node.entries().value();
      for (const auto& [key, value] : entries) {
        KVIST_CHECK(node.get(key).has_value(), "a key that entries() names must be found: " + key);
        open.push_back(value);
      }
      KVIST_CHECK(node.finish().has_value(), "after entries() every key is known");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  if (const auto root = kvist::YamlNode::parse(text, "fuzz")) read_all(*root);
  return 0;
}
