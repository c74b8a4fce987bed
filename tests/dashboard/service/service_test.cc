// The dashboard's thread: viewers over a WebSocket, what it asks gateways for, and its end.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "kvist/base/json.h"
#include "kvist/dashboard/service/dashboard.h"
#include "kvist/dashboard/service/fleet_poller.h"
#include "kvist/dashboard/service/viewer.h"
#include "net/websocket_client.h"

namespace kvist::dashboard::service_test {
namespace {

using net::client_frame;
using net::RawSocket;
using net::read_frame;

std::unique_ptr<Dashboard> started(Facts facts) {
  DashboardOptions options;
  options.facts = std::move(facts);
  auto made = Dashboard::start(std::move(options));
  EXPECT_TRUE(made) << made.error().message;
  return std::move(*made);
}

RawSocket viewer(const Dashboard& dashboard) {
  RawSocket socket = RawSocket::connect(dashboard.port());
  EXPECT_TRUE(socket.send(net::handshake_request("/dashboard/ws", "kvist-dashboard-1")));
  EXPECT_TRUE(socket.read_until("\r\n\r\n").starts_with("HTTP/1.1 101 "));
  return socket;
}

/// The next message of that type.
std::string message(RawSocket& socket, std::string_view type) {
  const std::string begin = "{\"type\":\"" + std::string(type) + "\"";
  for (int i = 0; i < 100; ++i) {
    const net::ServerFrame frame = read_frame(socket);
    if (frame.opcode == -1) break;
    if (frame.payload.starts_with(begin)) return frame.payload;
  }
  return {};
}

TEST(DashboardService, AViewerIsGreetedAndThenToldEachSecond) {
  const auto dashboard = started({.source = "gateway", .title = "t"});
  RawSocket socket = viewer(*dashboard);
  EXPECT_TRUE(message(socket, "hello").contains(R"("source":"gateway")"));
  EXPECT_EQ(message(socket, "baseline"), R"({"type":"baseline","baseline":null})");
  EXPECT_EQ(message(socket, "events"), R"({"type":"events","events":[]})");
  EXPECT_TRUE(message(socket, "sample").contains(R"("seq":)"));
}

TEST(DashboardService, WhoLooksAtStoredRunsIsToldEachSecondThatTheServerIsThere) {
  const auto dashboard = started({.source = "stored", .title = "t"});
  RawSocket socket = viewer(*dashboard);
  EXPECT_TRUE(message(socket, "sample").contains(R"("seq":1,)"));
  EXPECT_TRUE(message(socket, "sample").contains(R"("seq":2,)"));
}

TEST(DashboardService, WithoutALoadOrRunsCommandsSaySo) {
  const auto dashboard = started({.source = "stored", .title = "t"});
  RawSocket socket = viewer(*dashboard);
  ASSERT_TRUE(socket.send(client_frame(1, R"({"command":"start","id":4})")));
  const std::string refusal = message(socket, "reply");
  EXPECT_TRUE(refusal.contains(R"("id":4,"ok":false)")) << refusal;
  ASSERT_TRUE(socket.send(client_frame(1, R"({"command":"runs","id":5})")));
  EXPECT_EQ(message(socket, "reply"), R"({"type":"reply","id":5,"ok":true,"result":{"runs":[],"problems":[]}})");
  ASSERT_TRUE(socket.send(client_frame(1, R"({"command":"set_mode","id":6,"mode":"kv"})")));
  EXPECT_TRUE(message(socket, "reply").contains("no gateway"));
}

TEST(DashboardService, ItsEndIsToldToThoseWhoLook) {
  auto dashboard = started({.source = "gateway", .title = "t"});
  RawSocket socket = viewer(*dashboard);
  EXPECT_FALSE(message(socket, "events").empty());
  dashboard.reset();
  int code = 0;
  for (int i = 0; i < 10 && code == 0; ++i) code = read_frame(socket).close_code();
  EXPECT_EQ(code, 1001);
}

TEST(DashboardService, APortThatIsTakenIsAnError) {
  const auto first = started({.source = "stored", .title = "t"});
  DashboardOptions options;
  options.port = first->port();
  const auto second = Dashboard::start(std::move(options));
  ASSERT_FALSE(second);
  EXPECT_TRUE(second.error().message.contains(std::to_string(first->port()))) << second.error().message;
}

TEST(Decisions, TheirTimesBecomeThoseOfTheDay) {
  const auto message =
      decisions_message(R"({"format":"kvist-decisions-1","now_s":100,"total":7,"decisions":[]})", 1'000);
  ASSERT_TRUE(message) << message.error().message;
  EXPECT_EQ(*message, R"({"type":"decisions","total":7,"problem":"","decisions":[]})");
  EXPECT_FALSE(decisions_message("{}", 1'000));
  EXPECT_FALSE(decisions_message(R"({"now_s":100,"total":7,"decisions":[{}]})", 1'000));
}

TEST(CommandBudget, ASecondsWorthAtOnceAndThenTheRate) {
  CommandBudget budget;
  const TimePoint start = TimePoint{} + std::chrono::hours(1);
  int taken = 0;
  for (int i = 0; i < 50; ++i) taken += budget.take(start) ? 1 : 0;
  EXPECT_EQ(taken, 20);
  EXPECT_TRUE(budget.take(start + std::chrono::milliseconds(60)));
  EXPECT_FALSE(budget.take(start + std::chrono::milliseconds(60)));
  taken = 0;
  for (int i = 0; i < 50; ++i) taken += budget.take(start + std::chrono::hours(2)) ? 1 : 0;
  EXPECT_EQ(taken, 20) << "nobody saves commands up";
}

}  // namespace
}  // namespace kvist::dashboard::service_test
