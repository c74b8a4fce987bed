#include "kvist/loadgen/redaction.h"

#include <gtest/gtest.h>

namespace kvist::loadgen::redaction_test {
namespace {

net::Headers headers(std::initializer_list<std::pair<std::string, std::string>> fields) {
  net::Headers headers;
  for (const auto& [name, value] : fields) headers.add(name, value);
  return headers;
}

TEST(Redaction, HidesKeysAndValuesOfHeaders) {
  const auto secrets = secrets_of("sk-key-1", headers({{"Authorization", "Bearer sk-key-2"}, {"X-Team", "blue"}}));
  EXPECT_EQ(without_secrets("key sk-key-1, Bearer sk-key-2, sk-key-2 twice sk-key-2, team blue", secrets),
            "key ..., ..., ... twice ..., team blue");
  EXPECT_EQ(without_secrets("nothing", {}), "nothing");
  EXPECT_TRUE(secrets_of("", headers({{"X-Team", "blue"}})).empty());
}

TEST(Redaction, HidesTheQueryOfThePathAndItsValues) {
  const auto secrets = secrets_of("", headers({}), "/v1/chat?api-version=1&code=s3cret-code&x");
  EXPECT_EQ(without_secrets("POST /v1/chat?api-version=1&code=s3cret-code&x: s3cret-code is unknown", secrets),
            "POST /v1/chat?...: ... is unknown");
  EXPECT_TRUE(secrets_of("", headers({}), "/v1/chat/completions").empty());
}

}  // namespace
}  // namespace kvist::loadgen::redaction_test
