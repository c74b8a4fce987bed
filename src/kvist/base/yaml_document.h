// Private to base: the tree behind YamlNode.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kvist/base/yaml.h"

namespace kvist {

/// All values of one document in one vector, so that a deep document needs no deep destructor. Index 0 is the root.
struct YamlNode::Document {
  enum class Kind { kNull, kScalar, kSequence, kMap };

  struct Value {
    Kind kind = Kind::kNull;
    bool quoted = false;  // a scalar in quotes is text, whatever it looks like
    int line = 0;         // counted from 1; the line of the key if there is one
    std::size_t parent = 0;
    std::size_t position = 0;  // among the parent's children
    std::string key;           // set if the parent is a mapping
    std::string scalar;
    std::vector<std::size_t> children;
    std::vector<std::string> asked;  // keys that were asked for, in that order
  };

  /// "deployment.workers[2].block_size"; empty for the root.
  [[nodiscard]] std::string path_of(std::size_t index) const;

  std::string name;
  std::vector<Value> values;
};

}  // namespace kvist
