// The reference server under the load generator: what the one says it sent is what the other says it read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvist/loadgen/reference_record.h"
#include "kvist/loadgen/reference_server.h"
#include "loadgen/service_fixture.h"

namespace kvist::loadgen::reference_test {
namespace {

using std::chrono::milliseconds;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;

TimePoint at_ms(std::int64_t ms) {
  return TimePoint(milliseconds(ms));
}

std::vector<ReferenceStream> sample_record() {
  return {{.request = "loadgen-1-7-0",
           .arrived = at_ms(1'000),
           .latest_by = milliseconds(2),
           .sent = {at_ms(1'050), at_ms(1'070), at_ms(1'090)}},
          {.request = "loadgen-1-8-0", .arrived = at_ms(1'005), .latest_by = {}, .sent = {at_ms(1'055)}}};
}

TEST(ReferenceRecord, IsReadAsItWasWritten) {
  const auto read = parse_reference_record(reference_record_json(sample_record(), 0));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  ASSERT_EQ(read->size(), 2U);
  EXPECT_EQ(read->front().request, "loadgen-1-7-0");
  EXPECT_EQ(read->front().arrived, at_ms(1'000));
  EXPECT_EQ(read->front().latest_by, milliseconds(2));
  EXPECT_EQ(read->front().sent, sample_record().front().sent);
  EXPECT_THAT(parse_reference_record(reference_record_json({}, 3)).error().message, HasSubstr("3 streams"));
  EXPECT_FALSE(parse_reference_record("[]").has_value());
  EXPECT_FALSE(parse_reference_record(
                   R"({"streams":[{"request":"r","arrived_ns":-1,"latest_by_ns":0,"sent_ns":[]}],"dropped":0})")
                   .has_value());
}

TEST(ReferenceRecord, ErrorsAreAgainstWhatWasSent) {
  workload::TurnSample turn;
  turn.conversation = ConversationId(7);
  turn.sent = at_ms(999);
  turn.longest_send_ms = 0.25;
  turn.first_token = at_ms(1'051);
  turn.chunks = 3;
  turn.gaps_ms = {19, 24};
  workload::TurnSample other = turn;  // the record has one token of it
  other.conversation = ConversationId(8);
  workload::TurnSample unknown = turn;
  unknown.conversation = ConversationId(9);
  workload::TurnSample failed = unknown;
  failed.outcome = workload::TurnOutcome::kFailed;
  workload::TurnSample early = turn;
  early.sent = at_ms(10);
  const DeliveryErrors errors =
      delivery_errors({turn, other, unknown, failed, early}, sample_record(), "loadgen-1", at_ms(900), at_ms(2'000));
  EXPECT_THAT(errors.ttft_ms, ElementsAre(1.25));
  EXPECT_THAT(errors.itl_ms, ElementsAre(1, 4));
  EXPECT_EQ(errors.unmatched, 2U);
}

class ReferenceServerTest : public ServiceFixture {
 protected:
  void SetUp() override {
    ServiceFixture::SetUp();
    on_loop([this] {
      reference_ = std::move(
          ReferenceServer::create(loop_, {.http = {}, .first = milliseconds(5), .gap = milliseconds(1)}).value());
      options_.target_url = "http://127.0.0.1:" + std::to_string(reference_->port());
    });
  }
  void TearDown() override {
    on_loop([this] {
      service_.reset();
      reference_.reset();
    });
    ServiceFixture::TearDown();
  }
  std::vector<ReferenceStream> record() {
    const auto answer = net::fetch_blocking("GET", options_.target_url + "/record", "", std::chrono::seconds(100));
    return parse_reference_record(answer.value().body).value();
  }

  std::unique_ptr<ReferenceServer> reference_;
};

TEST_F(ReferenceServerTest, EveryTokenThatWasReadIsInTheRecordBefore) {
  options_.max_turns = 20;
  options_.workload.max_tokens = 12;
  on_loop([this] { service_ = std::move(Service::create(loop_, options_).value()); });
  start(4, 1);
  await([this] { return service_->recorder().totals().turns_succeeded == 20; });
  const std::vector<workload::TurnSample> turns = take_samples();
  const std::vector<ReferenceStream> streams = record();
  EXPECT_EQ(streams.size(), 20U);
  for (const ReferenceStream& stream : streams) {
    ASSERT_EQ(stream.sent.size(), 12U);
    EXPECT_GE(stream.sent.front() - stream.arrived, milliseconds(5));
    EXPECT_GE(stream.sent.back() - stream.arrived, milliseconds(5 + 11));
  }
  const DeliveryErrors errors = delivery_errors(turns, streams, "loadgen-1", TimePoint::min(), TimePoint::max());
  EXPECT_EQ(errors.unmatched, 0U);
  EXPECT_EQ(errors.ttft_ms.size(), 20U);
  EXPECT_EQ(errors.itl_ms.size(), 20U * 11);
  for (const workload::TurnSample& turn : turns) {
    EXPECT_EQ(turn.late_ms.size(), turn.chunks) << "each chunk says when it arrived";
    EXPECT_THAT(turn.late_ms, Each(Ge(0)));
    EXPECT_LE(turn.intended, turn.handed);
    EXPECT_LE(turn.handed, turn.sent);
  }
  on_loop([] {});
  EXPECT_EQ(net::fetch_blocking("POST", options_.target_url + "/record/reset", "{}", std::chrono::seconds(100))->status,
            200);
  EXPECT_TRUE(record().empty());
}

TEST_F(ReferenceServerTest, JitterMakesATokenLaterAndNotTheNext) {
  on_loop([this] {
    reference_ =
        std::move(ReferenceServer::create(
                      loop_, {.http = {}, .first = milliseconds(5), .gap = milliseconds(4), .jitter = milliseconds(3)})
                      .value());
    options_.target_url = "http://127.0.0.1:" + std::to_string(reference_->port());
    EXPECT_FALSE(
        ReferenceServer::create(loop_, {.http = {}, .gap = milliseconds(4), .jitter = milliseconds(4)}).has_value());
  });
  options_.max_turns = 10;
  options_.workload.max_tokens = 12;
  on_loop([this] { service_ = std::move(Service::create(loop_, options_).value()); });
  start(4, 1);
  await([this] { return service_->recorder().totals().turns_succeeded == 10; });
  std::size_t later = 0;
  for (const ReferenceStream& stream : record()) {
    for (std::size_t i = 0; i < stream.sent.size(); ++i) {
      const Duration behind = stream.sent[i] - stream.arrived - milliseconds(5) - i * milliseconds(4);
      EXPECT_GE(behind, Duration::zero());
      // The server's own lateness is on top; it is known of the latest token only.
      EXPECT_LE(behind, milliseconds(3) + stream.latest_by);
      later += behind > milliseconds(1) ? 1 : 0;
    }
  }
  EXPECT_GT(later, 40U);  // of 120; a third of the jitter is below
}

TEST_F(ReferenceServerTest, RefusesWhatItDoesNotDo) {
  const auto ask = [this](const std::string& body) {
    return net::fetch_blocking("POST", options_.target_url + "/v1/chat/completions", body, std::chrono::seconds(100))
        .value();
  };
  const net::HttpResponse whole = ask(R"({"model":"m","messages":[{"role":"user","content":"x"}]})");
  EXPECT_EQ(whole.status, 422);
  EXPECT_THAT(whole.body, HasSubstr("in streams only"));
  EXPECT_EQ(ask("{").status, 400);
  on_loop([this] {
    EXPECT_FALSE(ReferenceServer::create(loop_, {.http = {}, .first = milliseconds(-1)}).has_value());
    EXPECT_FALSE(ReferenceServer::create(loop_, {.http = {}, .gap = Duration::zero()}).has_value());
  });
}

}  // namespace
}  // namespace kvist::loadgen::reference_test
