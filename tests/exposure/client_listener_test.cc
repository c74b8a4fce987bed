#include "kvist/exposure/client_listener.h"

#include <gtest/gtest.h>

namespace kvist::exposure::client_listener_test {
namespace {

TEST(ClientListener, HasTheBoundsOfTheSettings) {
  const spec::Endpoint http{.host = "::1", .port = 8443};
  const spec::HttpLimitsSpec limits{.connections = 100,
                                    .connections_per_address = 7,
                                    .head_bytes = 4'096,
                                    .head_timeout = std::chrono::seconds(1),
                                    .body_timeout = std::chrono::seconds(2),
                                    .idle_timeout = std::chrono::seconds(3),
                                    .least_read_rate = 9};
  const spec::CorsSpec cors{.origins = {"https://chat.example"}};
  const net::HttpServerOptions options = client_listener({http, limits, 12'345, cors});
  EXPECT_EQ(options.host, "::1");
  EXPECT_EQ(options.port, 8443);
  EXPECT_EQ(options.max_connections, 100U);
  EXPECT_EQ(options.max_header_bytes, 4'096U);
  EXPECT_EQ(options.max_body_bytes, 12'345U);
  EXPECT_EQ(options.head_timeout, std::chrono::seconds(1));
  EXPECT_EQ(options.body_timeout, std::chrono::seconds(2));
  EXPECT_EQ(options.idle_timeout, std::chrono::seconds(3));
  EXPECT_EQ(options.least_read_rate, 9U);
  ASSERT_TRUE(options.by_address);
  ASSERT_TRUE(options.browsers);
  EXPECT_EQ(options.browsers->origins, cors.origins);
  EXPECT_GT(options.reserved_connections, 0U);
  net::HttpRequest request;
  request.target = "/health?full=1";
  EXPECT_TRUE(options.is_reserved(request));
  request.target = "/v1/models";
  EXPECT_FALSE(options.is_reserved(request));
}

TEST(ClientListener, WithoutABoundPerAddressNoneAreCounted) {
  const spec::Endpoint http;
  const spec::HttpLimitsSpec limits;
  const spec::CorsSpec cors;
  EXPECT_FALSE(client_listener({http, limits, 1, cors}).by_address);
}

TEST(ListenersCertificate, IsNoneWithoutAFileAndAnErrorWithoutAGoodOne) {
  const auto none = load_tls({});
  ASSERT_TRUE(none);
  EXPECT_EQ(*none, nullptr);
  const auto missing = load_tls({.certificate = "/nowhere/gateway.pem", .key = "/nowhere/gateway.key"});
  ASSERT_FALSE(missing);
  EXPECT_TRUE(missing.error().message.contains("/nowhere/gateway.pem")) << missing.error().message;
}

}  // namespace
}  // namespace kvist::exposure::client_listener_test
