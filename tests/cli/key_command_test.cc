#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "kvist/cli/commands.h"

namespace kvist::cli::key_command_test {
namespace {

using ::testing::StartsWith;

Result<void> create(const std::string& name, const std::string& key_class = "") {
  KeyCreateArguments arguments;
  arguments.name = name;
  arguments.key_class = key_class;
  return create_key(arguments);
}

// The line's words would be more than its author was asked for, in a script that passes on somebody's name.
TEST(KeyCommand, RefusesANameOrClassThatWouldBeFurtherWords) {
  for (const char* const name : {"mallory weight=1000 priority=-1000", "a b", "a\nname=b", "", "a;b"}) {
    const auto made = create(name);
    ASSERT_FALSE(made) << name;
    EXPECT_THAT(made.error().message, StartsWith("--name: has to be letters, digits"));
  }
  const auto made = create("mallory", "gold priority=-1000");
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, StartsWith("--class: has to be letters, digits"));
}

TEST(KeyCommand, MakesAKeyWithAndWithoutAClass) {
  EXPECT_TRUE(create("alice@example.org"));
  EXPECT_TRUE(create("alice", "gold"));
}

}  // namespace
}  // namespace kvist::cli::key_command_test
