// For tests: YAML text as a node, and an error's text.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "kvist/base/yaml.h"

namespace kvist::spec {

inline YamlNode parsed(const std::string& text) {
  auto node = YamlNode::parse(text, "test.yaml");
  EXPECT_TRUE(node.has_value()) << (node ? "" : node.error().message);
  return *node;
}

template <class T>
std::string message(const Result<T>& result) {
  return result ? "no error" : result.error().message;
}

}  // namespace kvist::spec
