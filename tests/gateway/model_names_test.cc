#include "kvist/gateway/model_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvist::gateway::model_names_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr ModelId kLlama{3};
constexpr ModelId kQwen{5};

ModelNames two() {
  return ModelNames({{.id = kLlama, .name = "llama", .aliases = {"gpt-4o", "big"}, .adapters = {"qwen", "sql"}},
                     {.id = kQwen, .name = "qwen", .aliases = {}, .adapters = {"poems", "sql"}}});
}

TEST(ModelNamesTest, AModelIsFoundByEachOfItsNames) {
  const ModelNames names = two();
  EXPECT_EQ(names.find("llama").value(), kLlama);
  EXPECT_EQ(names.find("gpt-4o").value(), kLlama);
  EXPECT_EQ(names.find("big").value(), kLlama);
  EXPECT_EQ(names.find("qwen").value(), kQwen) << "its own name, though a worker of llama lists it";
  EXPECT_EQ(names.find("sql").value(), kLlama) << "the first model whose workers list it";
  EXPECT_EQ(names.find("poems").value(), kQwen);
  EXPECT_EQ(names.owner("big"), kLlama);
  EXPECT_EQ(names.owner("poems"), std::nullopt) << "adapters come and go";
}

TEST(ModelNamesTest, WhatIsServedIsNamedWhereNothingIsFound) {
  const auto unknown = two().find("gpt-5\n");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(unknown.error().message,
              AllOf(HasSubstr(R"("gpt-5\x0A" does not exist)"), HasSubstr(R"(serves "llama", "qwen")")));
  const auto missing = two().find(std::nullopt);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(missing.error().message, HasSubstr(R"(model: missing; this gateway serves "llama", "qwen")"));
  EXPECT_FALSE(ModelNames().find("llama"));
  EXPECT_LT(two().find(std::string(1 << 20, 'x')).error().message.size(), 400U);
}

TEST(ModelNamesTest, ALongListIsCut) {
  std::vector<ModelNames::Model> models;
  for (std::uint32_t i = 0; i < 30; ++i) models.push_back({.id = ModelId(i), .name = "model-" + std::to_string(i)});
  const auto unknown = ModelNames(std::move(models)).find("x");
  EXPECT_THAT(unknown.error().message, HasSubstr(R"("model-7" and 22 more (GET /v1/models))"));
}

TEST(ModelNamesTest, OneModelNeedsNoName) {
  EXPECT_EQ(two().only(), std::nullopt);
  EXPECT_EQ(ModelNames().only(), std::nullopt);
  EXPECT_EQ(ModelNames({{.id = kQwen, .name = "qwen"}}).only(), kQwen);
}

}  // namespace
}  // namespace kvist::gateway::model_names_test
