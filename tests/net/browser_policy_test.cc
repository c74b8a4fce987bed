#include "kvist/net/browser_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "kvist/net/admin_listener.h"
#include "net/http_server_fixture.h"

namespace kvist::net::browser_policy_test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using Fields = std::vector<std::pair<std::string, std::string>>;

HttpRequest request(const std::string& method, const Fields& fields) {
  HttpRequest made{.method = method, .target = "/x", .headers = {}, .body = {}};
  for (const auto& [name, value] : fields) made.headers.add(name, value);
  return made;
}

TEST(BrowserPolicyTest, ProgramsThatAreNoBrowsersNoticeNothing) {
  for (const char* method : {"GET", "POST", "PUT", "DELETE", "OPTIONS"}) {
    const BrowserVerdict verdict = judge({}, request(method, {{"Host", "gateway.example:8080"}}));
    EXPECT_EQ(verdict.refused, 0) << method;
    EXPECT_FALSE(verdict.preflight);
    EXPECT_EQ(verdict.fields, "");
  }
}

TEST(BrowserPolicyTest, PagesOfOtherOriginsAreRefused) {
  for (const char* origin : {"https://evil.example", "null", "", "http://127.0.0.1:8081", "http://127.0.0.1:80800",
                             "https://127.0.0.1:8080.evil.example", "ftp://127.0.0.1:8080", "127.0.0.1:8080"}) {
    for (const char* method : {"GET", "POST", "OPTIONS"}) {
      const auto verdict = judge({}, request(method, {{"Host", "127.0.0.1:8080"}, {"Origin", origin}}));
      EXPECT_EQ(verdict.refused, 403) << origin;
      EXPECT_EQ(verdict.fields, "") << origin;
    }
  }
  EXPECT_EQ(judge({}, request("POST", {{"Host", "127.0.0.1:8080"}, {"Origin", "http://127.0.0.1:8080"}})).refused, 0);
}

TEST(BrowserPolicyTest, ListedPagesMayReadTheAnswers) {
  const BrowserPolicy policy{.origins = {"https://chat.example"}};
  const auto verdict = judge(policy, request("POST", {{"Host", "api:80"}, {"Origin", "https://chat.example"}}));
  EXPECT_EQ(verdict.refused, 0);
  EXPECT_THAT(verdict.fields, StartsWith("Access-Control-Allow-Origin: https://chat.example\r\nVary: Origin\r\n"));
  EXPECT_THAT(verdict.fields, Not(HasSubstr("Credentials")));
  EXPECT_EQ(judge(policy, request("POST", {{"Host", "api"}, {"Origin", "https://chat.example.org"}})).refused, 403);

  const auto preflight = judge(policy, request("OPTIONS", {{"Host", "api:80"},
                                                           {"Origin", "https://chat.example"},
                                                           {"Access-Control-Request-Method", "POST"}}));
  EXPECT_TRUE(preflight.preflight);
  EXPECT_THAT(preflight.fields, HasSubstr("Access-Control-Allow-Headers: authorization, content-type"));

  const auto asking = [&](const std::string& fields) {
    return judge(policy, request("OPTIONS", {{"Origin", "https://chat.example"},
                                             {"Access-Control-Request-Method", "POST"},
                                             {"Access-Control-Request-Headers", fields}}))
        .fields;
  };
  // The SDKs' own fields.
  EXPECT_THAT(asking("anthropic-version,x-api-key , x-stainless-lang"),
              HasSubstr("Access-Control-Allow-Headers: anthropic-version, x-api-key, x-stainless-lang\r\n"));
  EXPECT_THAT(asking("a"), HasSubstr("Vary: Access-Control-Request-Headers\r\n"));
  std::string many = "a";
  for (int i = 0; i < 64; ++i) many += ",a";
  for (const std::string& bad : {std::string(), std::string("a b"), std::string("a,,b"), std::string("a:b"),
                                 std::string("a\x01"), many, std::string(65, 'a')}) {
    EXPECT_THAT(asking(bad), HasSubstr("Access-Control-Allow-Headers: authorization, content-type")) << bad;
  }

  const auto all = judge({.origins = {"*"}}, request("GET", {{"Host", "api"}, {"Origin", "https://any.example"}}));
  EXPECT_THAT(all.fields, StartsWith("Access-Control-Allow-Origin: *\r\n"));
}

TEST(BrowserPolicyTest, AFormCannotChangeAnything) {
  const BrowserPolicy policy{.changes_need_json = true};
  for (const char* type : {"application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain",
                           "text/plain; application/json", "application/jsonp", ""}) {
    EXPECT_EQ(judge(policy, request("POST", {{"Content-Type", type}})).refused, 415) << type;
  }
  EXPECT_EQ(judge(policy, request("PUT", {})).refused, 415);
  EXPECT_EQ(judge(policy, request("PUT", {{"Content-Type", "Application/JSON ; charset=utf-8"}})).refused, 0);
  EXPECT_EQ(judge(policy, request("POST", {{"X-Kvist-Request", "1"}})).refused, 0);
  EXPECT_EQ(judge(policy, request("GET", {})).refused, 0);
}

TEST(BrowserPolicyTest, ANameThatIsNotItsOwnMayBeAPages) {
  const BrowserPolicy policy{.own_names_only = true};
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:8081", "10.1.2.3:1", "localhost:8081", "LocalHost", "[::1]:8081", "[::1]", ""}) {
    EXPECT_EQ(judge(policy, request("GET", {{"Host", host}})).refused, 0) << host;
  }
  for (const char* host : {"evil.example:8081", "127.0.0.1.evil.example", "[::g]:1", "localhost.evil.example", "1"}) {
    EXPECT_EQ(judge(policy, request("GET", {{"Host", host}})).refused, 421) << host;
  }
}

TEST(BrowserPolicyTest, OnlyLoopbackAddressesAreThat) {
  for (const char* host : {"127.0.0.1", "127.9.9.9", "::1", "localhost"}) EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "example", "128.0.0.1"})
    EXPECT_FALSE(is_loopback(host)) << host;
}

TEST(BrowserPolicyTest, AdministrationOnAllAddressesIsReachedFromThisMachineToo) {
  for (const char* host : {"0.0.0.0", "::", "0:0::0", "::ffff:0.0.0.0", "127.0.0.1"}) {
    EXPECT_TRUE(admin_listener(host, 0).browsers->own_names_only) << host;
  }
  EXPECT_FALSE(admin_listener("10.0.0.1", 0).browsers->own_names_only);
  EXPECT_FALSE(admin_listener("::ffff:10.0.0.1", 0).browsers->own_names_only);
  // Who has to show a key is no page, and may be a program that knows the machine by its name.
  EXPECT_FALSE(admin_listener("0.0.0.0", 0, true).browsers->own_names_only);
  EXPECT_TRUE(admin_listener("127.0.0.1", 0, true).browsers->own_names_only);
}

TEST_F(HttpServerTest, JudgesWhatBrowsersSendAndKeepsTheConnection) {
  listen({.browsers = BrowserPolicy{.origins = {"https://chat.example"}, .changes_need_json = true}});
  RawSocket socket = connect();
  const auto ask = [&](const std::string& head) {
    EXPECT_TRUE(socket.send(head + "Host: x\r\nContent-Length: 0\r\n\r\n"));
    return read_answer(socket);
  };
  EXPECT_THAT(ask("POST /echo HTTP/1.1\r\nOrigin: https://evil.example\r\n"), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(ask("POST /echo HTTP/1.1\r\nContent-Type: text/plain\r\n"), StartsWith("HTTP/1.1 415 "));
  const std::string preflight =
      ask("OPTIONS /echo HTTP/1.1\r\nOrigin: https://chat.example\r\nAccess-Control-Request-Method: POST\r\n");
  EXPECT_THAT(preflight, StartsWith("HTTP/1.1 204 "));
  EXPECT_THAT(preflight, HasSubstr("Access-Control-Allow-Methods: GET, POST"));
  EXPECT_EQ(thread_.run([&] { return requests_; }), 0);
  const std::string allowed = ask("POST /echo HTTP/1.1\r\nOrigin: https://chat.example\r\nX-Kvist-Request: 1\r\n");
  EXPECT_THAT(allowed, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(allowed, HasSubstr("Access-Control-Allow-Origin: https://chat.example\r\n"));
  EXPECT_THAT(ask("GET /echo HTTP/1.1\r\n"), Not(HasSubstr("Access-Control")));
}

}  // namespace
}  // namespace kvist::net::browser_policy_test
