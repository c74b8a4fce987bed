#include "kvist/gateway/prepared_request.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace kvist::gateway::prepared_request_test {
namespace {

class PrepareTest : public ::testing::Test {
 protected:
  PrepareTest() {
    fleet_.aliases = std::make_shared<const std::vector<std::string>>(std::vector<std::string>{"alias"});
  }

  [[nodiscard]] PreparedRequest prepared(std::string_view fields) const {
    const std::string body = R"({"messages":[{"role":"user","content":"Hello"}],)" + std::string(fields) + "}";
    auto result = prepare(reader_, Api::kChat, body, fleet_);
    EXPECT_TRUE(result) << body << ": " << result.error().message;
    return result ? *std::move(result) : PreparedRequest{};
  }

  PromptReader reader_{"m", 4};
  FleetReadings fleet_;
};

// The rest is openai::with_usage_requested and with_model. It is all done here, so that a large body is copied beside
// the loop.
TEST_F(PrepareTest, AsksForUsageInPlaceOfTheClient) {
  const PreparedRequest plain = prepared(R"("model":"m","stream":true)");
  EXPECT_EQ(
      plain.body,
      R"({"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Hello"}],"model":"m","stream":true})");
  EXPECT_FALSE(plain.usage_wanted);
  EXPECT_TRUE(plain.read.options.stream);
  EXPECT_GT(plain.read.profile.prompt_tokens, 0U);
}

TEST_F(PrepareTest, LeavesABodyAloneThatAWorkerCanHave) {
  for (const char* const fields :
       {R"("model":"m")", R"("model":"m","stream":true,"stream_options":{"include_usage":true})", R"("seed":1)"}) {
    const PreparedRequest same = prepared(fields);
    EXPECT_FALSE(same.body.has_value()) << fields;
    EXPECT_TRUE(same.usage_wanted) << fields;
  }
}

TEST_F(PrepareTest, NamesTheModelAsTheWorkersDo) {
  EXPECT_EQ(prepared(R"("model":"alias")").body, R"({"messages":[{"role":"user","content":"Hello"}],"model":"m"})");
  const PreparedRequest both = prepared(R"("model":"alias","stream":true)");
  EXPECT_EQ(
      both.body,
      R"({"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Hello"}],"model":"m","stream":true})");
  EXPECT_FALSE(both.usage_wanted);
}

TEST_F(PrepareTest, SaysWhatCannotBeRead) {
  EXPECT_EQ(
      prepare(reader_, Api::kChat, R"({"model":"other","messages":[{"role":"user","content":"x"}]})").error().code,
      ErrorCode::kNotFound);
  EXPECT_FALSE(prepare(reader_, Api::kCompletions, "{").has_value());
}

}  // namespace
}  // namespace kvist::gateway::prepared_request_test
