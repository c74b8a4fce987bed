// The field Date of answers.
#include "kvist/net/http_date.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "net/http_server_fixture.h"

namespace kvist::net::http_date_test {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(HttpDateTest, IsWrittenAsTheProtocolHasIt) {
  HttpDate date;
  EXPECT_EQ(date.line(0), "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n");
  EXPECT_EQ(date.line(784'111'777), "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");  // RFC 9110's example
  EXPECT_EQ(date.line(1'709'251'199), "Date: Thu, 29 Feb 2024 23:59:59 GMT\r\n");
  EXPECT_EQ(date.line(1'709'251'200), "Date: Fri, 01 Mar 2024 00:00:00 GMT\r\n");
  EXPECT_EQ(date.line(253'402'300'799), "Date: Fri, 31 Dec 9999 23:59:59 GMT\r\n");
}

TEST(HttpDateTest, IsWrittenAnewOnlyWhenTheSecondIsAnother) {
  HttpDate date;
  const std::string_view first = date.line(1'000);
  EXPECT_EQ(date.line(1'000).data(), first.data());
  EXPECT_EQ(date.line(1'000), "Date: Thu, 01 Jan 1970 00:16:40 GMT\r\n");
  EXPECT_EQ(date.line(999), "Date: Thu, 01 Jan 1970 00:16:39 GMT\r\n");  // a clock that was put back
}

std::size_t dates_in(std::string_view head) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = head.find("\r\nDate: ", at)) != std::string_view::npos; ++at) ++count;
  return count;
}

using HttpServerDate = HttpServerTest;

TEST_F(HttpServerDate, EachAnswerHasOne) {
  listen();
  RawSocket whole = connect();
  ASSERT_TRUE(whole.send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_EQ(dates_in(read_answer(whole)), 1U);
  RawSocket refused = connect();
  ASSERT_TRUE(refused.send("rubbish\r\n\r\n"));
  EXPECT_EQ(dates_in(read_answer(refused)), 1U);
  RawSocket stream = connect();
  ASSERT_TRUE(stream.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  with_exchange([](HttpExchange& e) {
    e.begin_stream(200, {});
    e.write("one");
    e.write("two");
    e.end_stream();
  });
  const std::string streamed = stream.read_until("0\r\n\r\n");
  EXPECT_EQ(dates_in(streamed), 1U) << streamed;
}

// A proxy passes on the one of the server behind it.
TEST_F(HttpServerDate, TheServicesOwnIsSent) {
  listen();
  RawSocket socket = connect();
  ASSERT_TRUE(socket.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"));
  ASSERT_TRUE(wait_held(1));
  with_exchange([](HttpExchange& e) {
    Headers headers;
    headers.add("date", "Sun, 06 Nov 1994 08:49:37 GMT");
    e.respond({200, headers, "old"});
  });
  const std::string answer = read_answer(socket);
  EXPECT_THAT(answer, HasSubstr("\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"));
  EXPECT_THAT(answer, Not(HasSubstr("Date: ")));
}

}  // namespace
}  // namespace kvist::net::http_date_test
