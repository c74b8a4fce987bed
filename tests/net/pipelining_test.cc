// What comes behind a request whose answer is under way.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>

#include "net/http_server_fixture.h"

namespace kvist::net::pipelining_test {
namespace {

class PipeliningTest : public HttpServerTest {};

// What was sent behind the request is not read until its answer is complete, which may be never: but for 64 KiB, and
// the rest has to fit into the system's receive buffer, or it holds back the news that the client has left.
TEST_F(PipeliningTest, AClientThatHasSentMuchBehindItsRequestIsNoticedWhenItLeaves) {
  listen();
  const std::string request = "GET /held HTTP/1.1\r\nHost: x\r\n\r\n";
  const std::string next = "GET /next HTTP/1.1\r\nHost: x\r\nX: " + std::string(std::size_t{110} << 10, 'a');
  int left = 0;
  for (const bool reset : {false, true}) {
    for (const bool at_once : {false, true}) {
      RawSocket socket = connect();
      ASSERT_TRUE(socket.send(at_once ? request + next : request));
      ASSERT_TRUE(wait_held(1));
      if (!at_once) {
        ASSERT_TRUE(socket.send(next));
      }
      const linger hard{.l_onoff = 1, .l_linger = 0};
      if (reset) {
        ASSERT_EQ(setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)), 0);
      }
      socket.close();
      ++left;
      EXPECT_TRUE(thread_.wait([&] { return gone_ == left; })) << reset << at_once;
      thread_.run([&] { held_.clear(); });
    }
  }
}

}  // namespace
}  // namespace kvist::net::pipelining_test
