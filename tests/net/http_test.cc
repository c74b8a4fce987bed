#include <gtest/gtest.h>

#include <thread>

#include "kvist/net/http_client.h"
#include "kvist/net/http_server.h"

namespace kvist::net {
namespace {

using std::chrono::seconds;

TEST(Http, ServesARequestToABlockingFetch) {
  EventLoop loop;
  auto server = HttpServer::listen(loop, {}, [](HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
    exchange->respond(
        {.status = 200, .headers = {}, .body = request.method + " " + request.target + " " + request.body});
  });
  ASSERT_TRUE(server) << server.error().message;
  std::jthread thread([&] { loop.run(); });
  const auto answer =
      fetch_blocking("POST", "http://127.0.0.1:" + std::to_string((*server)->port()) + "/a?b=c", "hello", seconds(5));
  loop.stop();
  thread.join();
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "POST /a?b=c hello");
}

}  // namespace
}  // namespace kvist::net
