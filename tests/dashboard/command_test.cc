// What a page may ask for, and what is refused with which words.
#include "kvist/dashboard/command.h"

#include <gtest/gtest.h>

#include <string>

#include "kvist/base/json.h"

namespace kvist::dashboard::command_test {
namespace {

template <class What>
What what(std::string_view text) {
  const auto command = read_command(text);
  if (!command) ADD_FAILURE() << command.error().why;
  return command ? std::get<What>(command->what) : What{};
}
std::string why(std::string_view text) {
  const auto command = read_command(text);
  return command ? std::string() : command.error().why;
}

TEST(Command, ChangesAndQuestionsAreRead) {
  const auto start = what<StartLoad>(R"({"command":"start","id":1,"concurrency":36,"rate_per_s":2.5})");
  EXPECT_EQ(start.concurrency, 36U);
  EXPECT_EQ(start.rate_per_s, 2.5);
  EXPECT_FALSE(what<StartLoad>(R"({"command":"start","id":1})").concurrency);
  EXPECT_TRUE(what<StopLoad>(R"({"command":"stop","id":1})").drain);
  EXPECT_FALSE(what<StopLoad>(R"({"command":"stop","id":1,"drain":false})").drain);
  EXPECT_EQ(what<SetConcurrency>(R"({"command":"set_concurrency","id":1,"concurrency":7})").concurrency, 7U);
  EXPECT_EQ(what<SetRate>(R"({"command":"set_rate","id":1,"rate_per_s":0})").rate_per_s, 0);
  EXPECT_EQ(what<SetMode>(R"({"command":"set_mode","id":1,"mode":"kv-aware"})").mode, spec::RoutingMode::kKv);
  const auto history = what<AskHistory>(R"({"command":"history","id":1,"of":"workers","window_s":300})");
  EXPECT_TRUE(history.of_workers);
  EXPECT_EQ(history.points, 900U);
  EXPECT_EQ(what<Subscribe>(R"({"command":"unsubscribe","id":1,"topic":"decisions"})").on, false);
  EXPECT_EQ(what<AskLevel>(R"({"command":"level","id":1,"run":"0-1","level":1000002})").level, 1'000'002);
  EXPECT_EQ(what<AskCompare>(R"({"command":"compare","id":1,"baseline":"0-1","candidate":"1-1"})").candidate, "1-1");
}

TEST(Command, OnlyChangesNeedTheToken) {
  EXPECT_TRUE(read_command(R"({"command":"set_mode","id":1,"mode":"kv"})")->changes());
  EXPECT_TRUE(read_command(R"({"command":"start","id":1})")->changes());
  EXPECT_FALSE(read_command(R"({"command":"runs","id":1})")->changes());
  EXPECT_EQ(read_command(R"({"command":"stop","id":1,"token":"secret"})")->token, "secret");
}

TEST(Command, WhatIsWrongIsSaidWithTheIdOfWhoAsked) {
  const auto bad = read_command(R"({"command":"dance","id":12})");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().id, 12U);
  EXPECT_TRUE(bad.error().why.contains("set_concurrency")) << bad.error().why;
  EXPECT_TRUE(why("nonsense").size() > 0);
  EXPECT_TRUE(why("[]").contains("object"));
  EXPECT_TRUE(why(R"({"command":"runs"})").contains("id"));
  EXPECT_TRUE(why(R"({"command":"runs","id":-1})").contains("id"));
  EXPECT_TRUE(why(R"({"command":"start","id":1,"concurrency":0})").contains("concurrency"));
  EXPECT_TRUE(why(R"({"command":"start","id":1,"concurrency":100000})").contains("4096"));
  EXPECT_TRUE(why(R"({"command":"set_mode","id":1,"mode":"best"})").contains("round_robin"));
  EXPECT_FALSE(why(R"({"command":"set_mode","id":1,"mode":"clairvoyant"})").empty()) << "only a simulation has it";
  EXPECT_TRUE(why(R"({"command":"history","id":1,"of":"live","window_s":86401})").contains("window_s"));
  EXPECT_TRUE(why(R"({"command":"stop","id":1,"drian":true})").contains("drian")) << "unknown keys are errors";
  EXPECT_FALSE(why("{\"command\":\"run\",\"id\":1,\"run\":\"" + std::string(300, 'x') + "\"}").empty());
}

TEST(Command, AnswersAreJson) {
  JsonDocument document;
  EXPECT_TRUE(document.parse_object(reply_json(7, R"({"a":1})")));
  const auto refusal = document.parse_object(refusal_json(8, "no \"such\" <b>thing</b>"));
  ASSERT_TRUE(refusal);
  EXPECT_EQ(*refusal->require_string("error"), "no \"such\" <b>thing</b>");
  EXPECT_EQ(*refusal->require_bool("ok"), false);
}

}  // namespace
}  // namespace kvist::dashboard::command_test
