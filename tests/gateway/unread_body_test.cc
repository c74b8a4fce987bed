// Requests whose body the gateway does not read: they have a model and a priority all the same.
#include "kvist/gateway/unread_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "kvist/gateway/key_file.h"
#include "kvist/net/sha256.h"
#include "running_gateway.h"

namespace kvist::gateway::unread_body_test {
namespace {

using ::testing::HasSubstr;

/// What no chat is, for the gateway.
constexpr std::string_view kUnreadable = R"("messages":5)";

UnreadBody settled(net::HttpRequest& request) {
  const PromptReader reader("m", 16);
  FleetReadings readings;
  readings.aliases = std::make_shared<const std::vector<std::string>>(std::vector<std::string>{"gpt-4o"});
  readings.adapters = std::make_shared<const std::vector<std::string>>(std::vector<std::string>{"gpt-4o", "m", "sql"});
  auto known = settle_unread(request, reader, readings, false);
  EXPECT_TRUE(known);
  return known.value_or(UnreadBody());
}

TEST(UnreadBodyTest, AnAliasIsTheModelAndAnAdapterItself) {
  net::HttpRequest alias{
      .method = "POST", .target = "/v1/embeddings", .headers = {}, .body = R"( {"model" : "gpt-4o"})"};
  EXPECT_EQ(settled(alias).adapter, "");
  EXPECT_EQ(alias.body, R"( {"model" : "m"})");
  for (const char* const body : {R"({"model":"m","priority":3})", R"({"model":"nobody"})", "{}", "", "model=sql",
                                 R"({"model":7})", R"({"model":"gpt-4o")", "\xFF\xFE{"}) {
    net::HttpRequest request{.method = "POST", .target = "/v1/embeddings", .headers = {}, .body = body};
    EXPECT_EQ(settled(request).adapter, "") << body;
    EXPECT_EQ(request.body, body);
  }
  net::HttpRequest adapter{.method = "POST", .target = "/v1/embeddings", .headers = {}, .body = R"({"model":"sql"})"};
  EXPECT_EQ(settled(adapter).adapter, "sql");
}

TEST(UnreadBodyTest, JsonThatHidesItsPriorityIsRefusedWhereKeysBoundIt) {
  const PromptReader reader("m", 16);
  const auto good = [&](std::string body, std::string_view type, bool has_key) {
    net::HttpRequest request{.method = "POST", .target = "/invocations", .headers = {}, .body = std::move(body)};
    if (!type.empty()) request.headers.add("Content-Type", std::string(type));
    return settle_unread(request, reader, {}, has_key).has_value();
  };
  const std::string little("{\0}\0", 4);
  const std::string big("\0{\0}", 4);
  const std::string marked("\xFF\xFE{\0}\0", 6);
  for (const std::string& wide : {little, big, marked}) {
    EXPECT_FALSE(good(wide, "", true));
    EXPECT_FALSE(good(wide, "Application/JSON; charset=utf-16", true));
    EXPECT_TRUE(good(wide, "", false)) << "everybody may take any priority";
    EXPECT_TRUE(good(wide, "audio/mp4", true));
  }
  for (const char* const body : {"", "{", "{}", "\xEF\xBB\xBF{}"}) EXPECT_TRUE(good(body, "", true)) << body;
}

class UnreadRequestTest : public ::testing::Test {
 protected:
  UnreadRequestTest() {
    std::ofstream(keys_) << to_line({.name = "alice", .hash = net::sha256("secret"), .standing = {.priority = 2}})
                         << "\n";
    key_.add("Authorization", "Bearer secret");
  }
  ~UnreadRequestTest() override { std::filesystem::remove(keys_); }

  spec::GatewaySpec with_keys(bool send_priority) const {
    auto spec = gateway_spec({&worker_});
    spec.api_keys.file = keys_;
    spec.send_priority = send_priority;
    return spec;
  }
  std::string last_body() const { return worker_.posts().back().body; }
  static std::string chat_of(std::string_view fields) { return fmt::format(R"({{"model":"m",{}}})", fields); }

  const std::string keys_ = testing::TempDir() + "kvist_unread_keys_" + std::to_string(::getpid());
  net::Headers key_;
  FakeWorker worker_{"w", FakeWorker::answer_of(200, "{}")};
};

TEST_F(UnreadRequestTest, NobodyGetsABetterPriorityThanTheKeyAllows) {
  const RunningGateway gateway(with_keys(false));
  const std::string readable = R"("messages":[{"role":"user","content":"x"}])";
  for (const std::string& kind : {std::string(kUnreadable), readable}) {
    for (const char* const priority : {"-1000", R"("-1000")", "-1e3", "true", R"(5,"priority":-1000)"}) {
      (void)gateway.chat(chat_of(fmt::format(R"({},"priority":{})", kind, priority)), key_);
      EXPECT_THAT(last_body(), testing::Not(HasSubstr(priority))) << kind;
      EXPECT_THAT(last_body(), HasSubstr(R"("priority":2)")) << kind;
    }
    (void)gateway.chat(chat_of(kind + R"(,"priority":5)"), key_);
    EXPECT_THAT(last_body(), HasSubstr(R"("priority":5)")) << "it is not better";
    (void)gateway.chat(chat_of(kind), key_);
    EXPECT_EQ(last_body(), chat_of(kind)) << "the worker may not know the field";
  }
  (void)gateway.call("POST", "/v1/embeddings", R"({"input":"x","priority":-1000})", key_);
  EXPECT_EQ(last_body(), R"({"input":"x","priority":2})");
  const std::size_t posts = worker_.posts().size();
  EXPECT_EQ(gateway.chat(std::string("{\0\"\0", 4), key_).status, 400);
  EXPECT_EQ(worker_.posts().size(), posts);
}

TEST_F(UnreadRequestTest, IsSentThePriorityOfItsKeyWhereTheWorkerTakesIt) {
  const RunningGateway gateway(with_keys(true));
  (void)gateway.chat(chat_of(kUnreadable), key_);
  EXPECT_EQ(last_body(), R"({"priority":2,"model":"m","messages":5})");
  (void)gateway.chat("{broken", key_);
  EXPECT_EQ(last_body(), "{broken");
  (void)gateway.call("POST", "/v1/embeddings", R"({"input":"x"})", key_);
  EXPECT_EQ(last_body(), R"({"input":"x"})") << "another endpoint may not have the field";
}

TEST_F(UnreadRequestTest, AnybodyMayHaveAnyPriorityWithoutKeys) {
  const RunningGateway gateway(gateway_spec({&worker_}));
  const std::string odd = chat_of(R"("messages":5,"priority":"-1000")");
  (void)gateway.chat(odd);
  EXPECT_EQ(last_body(), odd);
  net::Headers header;
  header.add("X-Request-Priority", "4");
  (void)gateway.chat(odd, std::move(header));
  EXPECT_EQ(last_body(), chat_of(R"("messages":5,"priority":4)")) << "the header replaces the body's";
}

// Round robin would send every second request to the worker that does not have the adapter.
TEST(UnreadRequest, GoesByItsModel) {
  const auto list = [](std::string_view more) {
    return FakeWorker::answer_of(200, fmt::format(R"({{"object":"list","data":[{{"id":"m"}}{}]}})", more));
  };
  FakeWorker plain("plain", FakeWorker::answer_of(200, "{}"));
  FakeWorker tuned("tuned", FakeWorker::answer_of(200, "{}"));
  plain.set_models(list(""));
  tuned.set_models(list(R"(,{"id":"sql","parent":"m"})"));
  auto spec = gateway_spec({&plain, &tuned});
  spec.mode = spec::RoutingMode::kRoundRobin;
  spec.model_aliases = {"gpt-4o"};
  const RunningGateway gateway(std::move(spec));
  ASSERT_TRUE(await([&] { return gateway.get("/admin/status").body.contains("sql"); }));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(gateway.chat(R"({"model":"sql","messages":5})").status, 200);
    EXPECT_EQ(gateway.call("POST", "/v1/embeddings", R"({"model":"sql","input":"x"})").status, 200);
  }
  EXPECT_EQ(plain.posts().size(), 0U);
  EXPECT_EQ(tuned.posts().size(), 6U);
  EXPECT_EQ(gateway.chat(R"({"model":"gpt-4o","messages":5})").status, 200);
  const auto body = (plain.posts().empty() ? tuned : plain).posts().back().body;
  EXPECT_EQ(body, R"({"model":"m","messages":5})");
}

}  // namespace
}  // namespace kvist::gateway::unread_body_test
