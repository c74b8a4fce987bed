#include "kvist/net/path_table.h"

#include <gtest/gtest.h>

#include <optional>

namespace kvist::net::path_table_test {
namespace {

/// Keeps the answer.
class KeptExchange final : public HttpExchange {
 public:
  void respond(HttpResponse response) override { answer = std::move(response); }
  void begin_stream(int /*status*/, Headers /*headers*/) override {}
  void write(std::string_view /*data*/) override {}
  void end_stream() override {}
  void abort() override {}
  [[nodiscard]] std::size_t unsent_bytes() const override { return 0; }
  void on_drained(std::size_t /*low_water*/, std::function<void()> /*handler*/) override {}
  void on_client_gone(std::function<void()> /*handler*/) override {}
  [[nodiscard]] bool client_gone() const override { return false; }

  std::optional<HttpResponse> answer;
};

class PathTableTest : public testing::Test {
 protected:
  PathTableTest() {
    const auto says = [](std::string text) {
      return [text](const HttpRequest& request) {
        return HttpResponse{.status = 200, .headers = {}, .body = text + " of " + request.target};
      };
    };
    table_.answer("GET", "/status", says("status"));
    table_.answer("PUT", "/status", says("change"));
    table_.answer("POST", "/start", says("start"));
  }

  HttpResponse ask(const std::string& method, const std::string& target) {
    const auto exchange = std::make_shared<KeptExchange>();
    table_.handle({.method = method, .target = target, .headers = {}, .body = {}}, exchange);
    return exchange->answer.value_or(HttpResponse{.status = 0, .headers = {}, .body = "no answer"});
  }

  PathTable table_{[](const HttpRequest& /*request*/, int status, const std::string& message) {
    return HttpResponse{.status = status, .headers = {}, .body = message};
  }};
};

TEST_F(PathTableTest, FindsHandlersByPathAndMethod) {
  EXPECT_EQ(ask("GET", "/status?of=all").body, "status of /status?of=all");
  EXPECT_EQ(ask("PUT", "/status").body, "change of /status");
  EXPECT_EQ(ask("POST", "/start").body, "start of /start");
  EXPECT_EQ(ask("HEAD", "/status").body, "status of /status") << "the server leaves the body out";
}

TEST_F(PathTableTest, AnUnknownPathIsNotFoundAndTheMessageSaysWhatThereIs) {
  const HttpResponse answer = ask("GET", "/stat?us=1");
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(answer.body, "no such path: /stat; there are /start, /status");
  EXPECT_FALSE(answer.headers.find("Allow").has_value());
}

TEST_F(PathTableTest, AnotherMethodIsRefusedWithThoseThatAreAllowed) {
  const HttpResponse answer = ask("DELETE", "/status");
  EXPECT_EQ(answer.status, 405);
  EXPECT_EQ(answer.body, "/status takes GET, PUT, not DELETE");
  EXPECT_EQ(answer.headers.find("Allow"), "GET, PUT");
  EXPECT_EQ(ask("HEAD", "/start").status, 405);
}

TEST_F(PathTableTest, TheRestGoesToWhoTakesIt) {
  table_.on_rest([](std::string_view path) { return path.starts_with("/st"); },
                 [](const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange) {
                   exchange->respond({.status = 200, .headers = {}, .body = "rest: " + request.method});
                 });
  EXPECT_EQ(ask("GET", "/status").body, "status of /status");
  EXPECT_EQ(ask("DELETE", "/status").body, "rest: DELETE") << "also the other methods of known paths";
  EXPECT_EQ(ask("GET", "/stranger").body, "rest: GET");
  EXPECT_EQ(ask("GET", "/other").status, 404);
}

}  // namespace
}  // namespace kvist::net::path_table_test
