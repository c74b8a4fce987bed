#include "kvist/gateway/proxy_headers.h"

#include <gtest/gtest.h>

namespace kvist::gateway::proxy_headers_test {
namespace {

TEST(ProxyHeaders, WhatIsMeantForOneHopStaysThere) {
  net::Headers client;
  client.add("Host", "gateway");
  client.add("Authorization", "Bearer key");
  client.add("Connection", "keep-alive, X-Only-Here");
  client.add("X-Only-Here", "1");
  client.add("Keep-Alive", "timeout=5");
  client.add("Transfer-Encoding", "chunked");
  client.add("Content-Length", "12");
  client.add("Accept-Encoding", "gzip");
  client.add("Expect", "100-continue");
  client.add("Origin", "https://chat.example");  // the gateway has judged it, by its own Host
  client.add("traceparent", "00-1-2-01");
  client.add("x-request-id", "theirs");
  const net::Headers worker = headers_for_worker(client, "ours", Credentials::kPass);
  ASSERT_EQ(worker.fields().size(), 3U);
  EXPECT_EQ(worker.find("Authorization"), "Bearer key");
  EXPECT_EQ(worker.find("traceparent"), "00-1-2-01");
  EXPECT_EQ(worker.find("X-Request-Id"), "ours");
}

TEST(ProxyHeaders, TheAnswerKeepsTheWorkersFieldsAndTheClientsRequestId) {
  net::Headers worker;
  worker.add("Content-Type", "text/event-stream");
  worker.add("X-Request-Id", "the worker's");
  worker.add("Retry-After", "3");
  worker.add("Transfer-Encoding", "chunked");
  worker.add("connection", "close");
  const net::Headers client = headers_for_client(worker, "abc", "http://10.0.0.1:8000");
  ASSERT_EQ(client.fields().size(), 3U);
  EXPECT_EQ(client.find("content-type"), "text/event-stream");
  EXPECT_EQ(client.find("retry-after"), "3");
  EXPECT_EQ(client.find("x-request-id"), "abc");
}

TEST(ProxyHeaders, CredentialsAreForTheGateway) {
  net::Headers client;
  for (const char* name : {"Authorization", "X-API-Key", "api-key", "Cookie"}) client.add(name, "secret");
  client.add("Accept", "*/*");
  const net::Headers worker = headers_for_worker(client, "ours", Credentials::kKeep);
  ASSERT_EQ(worker.fields().size(), 2U);
  EXPECT_TRUE(worker.find("accept"));
}

TEST(ProxyHeaders, WhatAWorkerSaysOfItselfStaysThere) {
  net::Headers worker;
  for (const char* name : {"Server", "Set-Cookie", "Via", "X-Powered-By", "Strict-Transport-Security", "Alt-Svc",
                           "Access-Control-Allow-Origin", "Access-Control-Allow-Credentials"}) {
    worker.add(name, "x");
  }
  worker.add("Date", "today");
  const net::Headers client = headers_for_client(worker, "abc", "");
  ASSERT_EQ(client.fields().size(), 2U);
  EXPECT_TRUE(client.find("date"));
}

TEST(ProxyHeaders, ARequestIdIsPrintableAndShort) {
  EXPECT_TRUE(is_usable_request_id("a-1.B_2"));
  EXPECT_FALSE(is_usable_request_id(""));
  EXPECT_FALSE(is_usable_request_id("a b"));
  EXPECT_FALSE(is_usable_request_id("a\nb"));
  EXPECT_FALSE(is_usable_request_id(std::string(129, 'x')));
}

TEST(HeadersForClient, ARedirectOfTheWorkersLeadsBackToTheGateway) {
  const auto location = [](const std::string& of_worker) {
    net::Headers worker;
    worker.add("Location", of_worker);
    return std::string(*headers_for_client(worker, "abc", "http://10.0.0.1:8000").find("Location"));
  };
  EXPECT_EQ(location("http://10.0.0.1:8000/v1/models?a=b"), "/v1/models?a=b");
  EXPECT_EQ(location("http://10.0.0.1:80001/x"), "http://10.0.0.1:80001/x");
  EXPECT_EQ(location("https://elsewhere/x"), "https://elsewhere/x");
}

}  // namespace
}  // namespace kvist::gateway::proxy_headers_test
