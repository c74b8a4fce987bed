#include <gtest/gtest.h>

#include "gateways.h"
#include "kvist/peering/message_codec.h"

namespace kvist::peering::peers_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TimePoint at(std::int64_t ms) {
  return TimePoint{} + milliseconds(ms);
}

class PeersTest : public ::testing::Test {
 protected:
  TestGateway a_{"a", 1, {"w0", "w1", "w2"}};
  TestGateway b_{"b", 1, {"w2", "w0", "w1"}};  // other places
};

TEST_F(PeersTest, ARequestOfAnotherGatewayCountsAsOnesOwn) {
  const auto request = a_.route(1, 400, prompt_of(1, 25, 25, 0), at(10));
  const std::string worker = a_.worker_of(request);
  EXPECT_EQ(b_.load(worker), routing::WorkerLoad{});
  pass_on(a_, {&b_}, at(15));
  EXPECT_EQ(b_.load(worker), a_.load(worker));
  EXPECT_EQ(b_.load(worker).prefill_tokens, 400U);
  EXPECT_EQ(b_.load(worker).prompt_blocks, 25U);
  a_.router.on_first_token(request, at(300));
  a_.router.on_progress(request, 1, at(300));
  pass_on(a_, {&b_}, at(305));
  EXPECT_EQ(b_.load(worker).decoding, 1U);
  EXPECT_EQ(b_.load(worker).prefill_tokens, 0U);
  a_.router.on_progress(request, 7, at(310));
  pass_on(a_, {&b_}, at(600));
  EXPECT_EQ(b_.load(worker), a_.load(worker));
  EXPECT_EQ(b_.load(worker).output_tokens, 8U);
  a_.router.on_finished(request, true, at(700));
  pass_on(a_, {&b_}, at(705));
  EXPECT_EQ(b_.load(worker), routing::WorkerLoad{});
  EXPECT_EQ(b_.router.loads().requests(), 0U);
  EXPECT_EQ(b_.peers.counters().repaired, 0U);
  EXPECT_EQ(b_.router.forecaster().output_lengths().mean_tokens(),
            a_.router.forecaster().output_lengths().mean_tokens());
}

// Its progress is told as the sum over its choices.
TEST_F(PeersTest, AnswersOfSeveralChoicesAreAsLongAsAtTheirOwnGateway) {
  for (std::uint64_t i = 1; i <= 50; ++i) {
    const auto begin = static_cast<std::int64_t>(1'000 * i);
    const auto request = a_.router
                             .route({.request = RequestId(i),
                                     .prompt_tokens = 400,
                                     .blocks = prompt_of(i, 25, 25, 0),
                                     .streams = true,
                                     .choices = 8,
                                     .excluded = {}},
                                    a_.fleet.views(), at(begin))
                             ->request;
    const WorkerId worker = a_.router.find(request)->worker;
    pass_on(a_, {&b_}, at(begin + 5));
    EXPECT_EQ(b_.load(a_.worker_of(request)), a_.load(a_.worker_of(request)));
    EXPECT_EQ(b_.router.loads().answers(WorkerId((worker.value() + 1) % 3)), 8U);
    a_.router.on_first_token(request, at(begin + 50));
    for (int k = 0; k < 8 * 100; ++k) a_.router.on_progress(request, 1, at(begin + 50));
    pass_on(a_, {&b_}, at(begin + 300));
    a_.router.on_finished(request, true, at(begin + 400));
    pass_on(a_, {&b_}, at(begin + 405));
  }
  EXPECT_NEAR(b_.router.forecaster().output_lengths().mean_tokens(),
              a_.router.forecaster().output_lengths().mean_tokens(), 20);
}

TEST_F(PeersTest, TheNextRequestAvoidsAWorkerThatAPeerHasFilled) {
  for (std::uint64_t i = 0; i < 2; ++i) (void)a_.route(i, 3'200, prompt_of(10 + i, 200, 200, 0), at(0));
  pass_on(a_, {&b_}, at(5));
  const auto request = b_.route(9, 3'200, prompt_of(99, 200, 200, 0), at(6));
  EXPECT_EQ(a_.load(b_.worker_of(request)), routing::WorkerLoad{}) << "the third worker is the one without load";
}

// Before any event of it: in a burst of one prefix that comes to two gateways, the second knows of the first.
TEST_F(PeersTest, APromptUnderWayAtAPeersWorkerCountsAsCached) {
  for (std::uint32_t i = 0; i < 3; ++i) {
    a_.fleet.set_events_exact(WorkerId(i), true);
    b_.fleet.set_events_exact(WorkerId(i), true);
  }
  const auto first = a_.route(1, 1'600, prompt_of(5, 100, 100, 0), at(0));
  pass_on(a_, {&b_}, at(5));
  (void)b_.route(1, 1'608, prompt_of(5, 100, 100, 0), at(6));
  for (const routing::Candidate& candidate : b_.router.log().newest(0).candidates) {
    const bool is_there = b_.fleet.worker(candidate.worker).name == a_.worker_of(first);
    EXPECT_EQ(candidate.cached_blocks, is_there ? 100U : 0U);
    EXPECT_EQ(candidate.new_blocks, is_there ? 0U : 100U);
    EXPECT_EQ(candidate.load.requests, is_there ? 1U : 0U);
  }
}

TEST_F(PeersTest, ASessionStaysWithTheWorkerThatAPeerGaveItTo) {
  const auto first = a_.route(1, 32, nullptr, at(0), 77);
  pass_on(a_, {&b_}, at(5));
  const auto found = b_.router.sessions().size();
  EXPECT_EQ(found, 1U);
  (void)b_.route(1, 32, nullptr, at(6), 77);
  EXPECT_EQ(b_.router.session_counts().kept + b_.router.session_counts().moved, 1U);
  a_.router.on_finished(first, true, at(7));
}

TEST_F(PeersTest, EventsWaitForAtMostABatchAndAStateComesEverySecond) {
  EXPECT_EQ(a_.teller.due(at(0)), at(0)) << "the first state introduces the gateway";
  EXPECT_EQ(a_.teller.take(at(0)).size(), 1U);
  EXPECT_EQ(a_.teller.due(at(1)), at(1'000)) << "with nothing to say, silence until the next state";
  const auto request = a_.route(1, 100, nullptr, at(10));
  EXPECT_EQ(a_.teller.due(at(10)), at(15));
  EXPECT_EQ(a_.teller.due(at(12)), at(15)) << "the first event sets the time";
  EXPECT_EQ(a_.teller.take(at(15)).size(), 1U);
  EXPECT_EQ(a_.teller.due(at(20)), at(200)) << "how far it is";
  a_.router.on_finished(request, true, at(30));
  EXPECT_EQ(a_.teller.due(at(30)), at(35));
}

TEST_F(PeersTest, AStateMakesUpForLostMessages) {
  const auto kept = a_.route(1, 400, prompt_of(1, 25, 25, 0), at(0));
  const auto ended = a_.route(2, 320, prompt_of(2, 20, 20, 0), at(0));
  pass_on(a_, {&b_}, at(5));
  a_.router.on_first_token(kept, at(50));
  a_.router.on_progress(kept, 3, at(50));
  a_.router.on_finished(ended, true, at(50));
  const auto routed = a_.route(3, 160, prompt_of(3, 10, 10, 0), at(50));
  EXPECT_EQ(a_.teller.take(at(55)).size(), 1U) << "and is lost";
  EXPECT_EQ(b_.router.loads().requests(), 2U);
  pass_on(a_, {&b_}, at(1'005));
  EXPECT_EQ(b_.peers.counters().lost, 1U);
  EXPECT_EQ(b_.peers.counters().repaired, 3U);
  for (const char* worker : {"w0", "w1", "w2"}) EXPECT_EQ(b_.load(worker), a_.load(worker)) << worker;
  a_.router.on_finished(routed, true, at(1'100));
  a_.router.on_finished(kept, true, at(1'100));
  pass_on(a_, {&b_}, at(1'105));
  EXPECT_EQ(b_.router.loads().requests(), 0U);
}

TEST_F(PeersTest, LateAndDoubledMessagesChangeNothing) {
  const auto request = a_.route(1, 400, nullptr, at(0));
  const auto first = a_.teller.take(at(5));
  a_.router.on_finished(request, true, at(6));
  const auto second = a_.teller.take(at(11));
  b_.peers.on_message(bytes_of(first[0]), at(12));
  b_.peers.on_message(bytes_of(first[0]), at(12));
  b_.peers.on_message(bytes_of(second[0]), at(12));
  b_.peers.on_message(bytes_of(first[0]), at(12));
  EXPECT_EQ(b_.peers.counters().late, 2U);
  EXPECT_EQ(b_.router.loads().requests(), 0U);
}

TEST_F(PeersTest, TheLoadOfASilentGatewayDropsOut) {
  (void)a_.route(1, 400, prompt_of(1, 25, 25, 0), at(0));
  pass_on(a_, {&b_}, at(5));
  b_.peers.expire(at(3'005));
  EXPECT_EQ(b_.router.loads().requests(), 1U);
  b_.peers.expire(at(3'006));
  EXPECT_EQ(b_.router.loads().requests(), 0U);
  EXPECT_EQ(b_.peers.size(), 0U);
  for (const char* worker : {"w0", "w1", "w2"}) EXPECT_EQ(b_.load(worker), routing::WorkerLoad{});
}

TEST_F(PeersTest, AGatewayThatEndsSaysSo) {
  (void)a_.route(1, 400, nullptr, at(0));
  pass_on(a_, {&b_}, at(5));
  b_.peers.on_message(bytes_of(a_.teller.goodbye()), at(6));
  EXPECT_EQ(b_.router.loads().requests(), 0U);
  EXPECT_EQ(b_.peers.size(), 0U);
}

TEST_F(PeersTest, ARestartedGatewayTakesThePlaceOfItsLastProcess) {
  (void)a_.route(1, 400, nullptr, at(0));
  const auto old = a_.teller.take(at(5));
  b_.peers.on_message(bytes_of(old[0]), at(5));
  TestGateway again("a", 2, {"w0", "w1", "w2"});
  (void)again.route(1, 100, nullptr, at(10));
  (void)again.route(2, 100, nullptr, at(10));
  const auto now = again.teller.take(at(15));
  EXPECT_TRUE(b_.peers.on_message(bytes_of(now[0]), at(15))) << "it is to hear of everything";
  EXPECT_EQ(b_.router.loads().requests(), 2U);
  b_.peers.on_message(bytes_of(old[0]), at(16));
  EXPECT_EQ(b_.router.loads().requests(), 2U) << "what the old process said is late";
  EXPECT_EQ(b_.peers.size(), 1U);
}

TEST_F(PeersTest, AnotherGatewayOfOnesOwnNameIsNotHeard) {
  TestGateway same("b", 9, {"w0", "w1", "w2"});
  (void)same.route(1, 400, nullptr, at(0));
  pass_on(same, {&b_}, at(5));
  EXPECT_EQ(b_.peers.counters().namesakes, 1U);
  EXPECT_EQ(b_.router.loads().requests(), 0U);
}

TEST_F(PeersTest, AWorkerThatIsKnownLaterGetsItsLoadWithTheNextState) {
  TestGateway more("c", 1, {"w9"});
  const auto request = more.route(1, 400, nullptr, at(0));
  pass_on(more, {&b_}, at(5));
  EXPECT_EQ(b_.router.loads().requests(), 0U);
  EXPECT_EQ(b_.peers.peers()[0].elsewhere, 1U);
  b_.fleet.occupy(WorkerId(3), "w9");
  pass_on(more, {&b_}, at(1'100));
  EXPECT_EQ(b_.load("w9").requests, 1U);
  b_.router.forget(WorkerId(3));
  EXPECT_EQ(b_.router.loads().requests(), 0U);
  b_.fleet.vacate(WorkerId(3));
  more.router.on_finished(request, true, at(1'200));
  pass_on(more, {&b_}, at(1'205));
  EXPECT_EQ(b_.router.loads().requests(), 0U);
}

TEST_F(PeersTest, BlocksOfARequestThatIsBookedAgainCountOnce) {
  TestGateway more("c", 1, {"w9"});
  b_.fleet.occupy(WorkerId(3), "w9");
  (void)more.route(1, 400, prompt_of(1, 25, 25, 0), at(0));
  pass_on(more, {&b_}, at(5));
  EXPECT_EQ(b_.peers.peers()[0].blocks, 25U);
  b_.router.forget(WorkerId(3));
  pass_on(more, {&b_}, at(1'100));
  EXPECT_EQ(b_.load("w9").requests, 1U) << "by its state, which has no blocks";
  EXPECT_EQ(b_.peers.peers()[0].blocks, 0U);
}

// As those of one's own requests are, which are routed with limits in the gateway's blocks.
TEST_F(PeersTest, PromptsOfPeersAreKeptUpToTheWorkersMemoryInTheGatewaysBlocks) {
  for (std::uint32_t i = 0; i < 3; ++i)
    b_.fleet.set_limits(WorkerId(i),
                        {.block_size = 8 * TestGateway::kBlockSize, .kv_blocks = 50, .max_batch_size = 64});
  for (std::uint64_t i = 0; i < 30; ++i) (void)a_.route(i, 400, prompt_of(i, 25, 25, 0), at(0));
  pass_on(a_, {&b_}, at(5));
  std::uint64_t kept = 0;
  for (std::uint32_t i = 0; i < 3; ++i) kept += b_.router.caches().report(WorkerId(i), false).predicted_blocks;
  EXPECT_EQ(kept, 30U * 25U) << "each has room for 400 of the gateway's blocks";
}

TEST_F(PeersTest, AStateOfManyRequestsComesInParts) {
  TestGateway big("c", 1, {"w0", "w1", "w2"});
  constexpr std::size_t kRequests = 4'700;
  std::vector<routing::RequestHandle> handles;
  for (std::uint64_t i = 1; i <= kRequests; ++i) handles.push_back(big.route(i, 64, nullptr, at(0)));
  (void)big.teller.take(at(5));  // is lost
  for (std::size_t i = 0; i < kRequests; i += 10) big.router.on_finished(handles[i], true, at(10));
  (void)big.teller.take(at(15));  // too
  pass_on(big, {&b_}, at(1'100));
  EXPECT_EQ(b_.router.loads().requests(), kRequests - kRequests / 10);
}

TEST(PeerMessages, ReadBackWhatWasWritten) {
  const Message message{
      .gateway = "gw",
      .run = 7,
      .sequence = 9,
      .events = {Routed{.attempt = AttemptId(3),
                        .worker = worker_key("w"),
                        .prompt_tokens = 100,
                        .uncached_tokens = 60,
                        .known_tokens = 40,
                        .own_blocks = 4,
                        .new_blocks = 5,
                        .streams = true,
                        .decoding = true,
                        .choices = 128,
                        .session = 5,
                        .blocks = prompt_of(1, 6, 6, 0)},
                 FirstToken{AttemptId(3)}, Progress{AttemptId(3), 8}, Ended{AttemptId(3), 9, true},
                 State{.until = AttemptId(4), .requests = {Routed{.attempt = AttemptId(4)}}}, Goodbye{},
                 Heard{.gateway = gateway_key("b"), .run = 3, .sequence = 12, .held = std::chrono::microseconds(250)},
                 Refused{.requests = 17}}};
  const std::string bytes = encode(message);
  const auto read = decode(bytes_of(bytes));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->events.size(), 8U);
  EXPECT_EQ(encode(*read), bytes);
  const Routed& routed = std::get<Routed>(read->events[0]);
  EXPECT_EQ(*routed.blocks, *prompt_of(1, 6, 6, 0));
  EXPECT_TRUE(routed.streams && routed.decoding);
  EXPECT_EQ(routed.choices, 128U);
  EXPECT_EQ(std::get<Refused>(read->events[7]).requests, 17U);
  for (std::size_t i = 0; i < bytes.size(); ++i) EXPECT_FALSE(decode(bytes_of(bytes).first(i))) << "cut at byte " << i;
}

TEST(PeerMessages, RefuseWhatCannotBe) {
  const auto refused = [](const Event& event) {
    return !decode(bytes_of(encode({.gateway = "g", .run = 1, .sequence = 1, .events = {event}})));
  };
  EXPECT_TRUE(refused(Routed{.attempt = AttemptId(0)}));
  EXPECT_TRUE(refused(Routed{.attempt = AttemptId(1), .prompt_tokens = 10, .uncached_tokens = 11}));
  EXPECT_TRUE(refused(Progress{AttemptId(1), std::uint64_t{1} << 40U}));
  EXPECT_TRUE(refused(State{.until = AttemptId(1), .requests = {Routed{.attempt = AttemptId(2)}}}));
  EXPECT_TRUE(refused(
      State{.until = AttemptId(3), .requests = {Routed{.attempt = AttemptId(2)}, Routed{.attempt = AttemptId(2)}}}));
  EXPECT_TRUE(refused(Heard{.held = std::chrono::hours(2)}));
  EXPECT_FALSE(decode(bytes_of(encode({.gateway = "", .run = 1, .sequence = 1}))));
}

}  // namespace
}  // namespace kvist::peering::peers_test
