#include "kvist/gateway/worker_endpoint.h"

#include <gtest/gtest.h>

#include <string_view>

namespace kvist::gateway::worker_endpoint_test {
namespace {

TEST(WorkerEndpoint, IsTheAddressAndPortOfAUrl) {
  EXPECT_EQ(*worker_endpoint("http://10.0.0.1:8000"), "10.0.0.1:8000");
  EXPECT_EQ(*worker_endpoint("https://10.0.0.1"), "10.0.0.1:443");
  EXPECT_EQ(*worker_endpoint("http://10.0.0.1/"), "10.0.0.1:80");
  EXPECT_EQ(*worker_endpoint("http://localhost:8000"), "127.0.0.1:8000");
  EXPECT_EQ(*worker_endpoint("http://[2600:4040:5204::1574]:80"), "[2600:4040:5204::1574]:80");
  EXPECT_EQ(*worker_endpoint("http://[::1]"), "[::1]:80");
}

TEST(WorkerEndpoint, ANameIsNone) {
  for (const std::string_view url :
       {"http://worker.example:8000", "http://[::1", "http://1.2.3:80", "tcp://10.0.0.1:80", ""}) {
    const auto endpoint = worker_endpoint(url);
    ASSERT_FALSE(endpoint) << url;
    EXPECT_EQ(endpoint.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace kvist::gateway::worker_endpoint_test
