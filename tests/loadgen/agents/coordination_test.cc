#include "kvist/loadgen/agents/coordination.h"

#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "kvist/base/version.h"
#include "kvist/loadgen/agents/feed_page.h"
#include "kvist/loadgen/agents/sample_page.h"

namespace kvist::loadgen::coordination_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using workload::TurnSample;

constexpr Duration kGap = milliseconds(10);

/// An agent in virtual time, whose clock is another one: conversation k of the load is sent at k x kGap, if it is of
/// the agent's part, and ends 3 ms later.
struct FakeAgent {
  std::uint32_t threads = 1;
  Duration ahead{};
  double drift = 0;  ///< parts of one
  Duration there = milliseconds(1);
  Duration back = milliseconds(1);
  std::string version = std::string(kVersion);
  std::string schedule = "same";
  AgentState state = AgentState::kIdle;
  std::function<std::optional<AgentAnswer>(const AgentCall&)> instead = {};  ///< of the usual answer
  std::optional<TimePoint> dies = {};                                        ///< of the coordinator's clock
  std::uint64_t conversations = 1'000'000;
  bool wants_feed = false;  ///< the order says so

  std::string load = {};
  workload::Shard shard = {};
  std::optional<AgentStart> started = {};
  std::optional<TimePoint> stopped = {};  ///< of the agent's clock
  std::vector<AgentChange> changes = {};
  std::vector<std::string> asked = {};
  SampleOutbox outbox = SampleOutbox();
  FeedOutbox feed = FeedOutbox();
  std::uint64_t next = 0;
  std::uint64_t fed = 0;  ///< conversations that the feed has told of

  [[nodiscard]] bool has(std::uint64_t conversation) const {
    const std::uint64_t part = conversation % shard.count;
    return part >= shard.index && part < shard.index + threads;
  }
  [[nodiscard]] TimePoint due(std::uint64_t conversation) const {
    return started->at + kGap * static_cast<int>(conversation);
  }

  /// What happened to conversations that have been sent by now.
  FeedPage page_until(TimePoint now) {
    FeedPage page{.number = 0, .until = now, .totals = {.turns_succeeded = next}, .batch = {}};
    for (; fed < next; ++fed) {
      if (!has(fed)) continue;
      page.batch.conversation_starts.push_back(due(fed));
      page.batch.started.push_back({.at = due(fed), .conversation = ConversationId(fed)});
      page.batch.first_tokens.push_back({.at = due(fed) + milliseconds(2), .ttft = milliseconds(2)});
      page.batch.gaps_ms.push_back(1);
    }
    return page;
  }

  [[nodiscard]] TimePoint clock(TimePoint now) const {
    return now + ahead + from_seconds(to_seconds(now.time_since_epoch()) * drift);
  }

  AgentAnswer answer(const AgentCall& call, TimePoint now) {
    asked.push_back(call.method + " " + call.target.substr(0, call.target.find('?')));
    drive(clock(now));
    AgentAnswer answer{.status = 200, .body = {}, .sent = {}, .received = {}};
    switch (call.ask) {
      case AgentAsk::kClock:
        answer.body = clock_json(clock(now));
        return answer;
      case AgentAsk::kFileState:
      case AgentAsk::kFilePart: {
        const bool complete = call.ask == AgentAsk::kFilePart && call.part->offset + call.part->bytes >= 3'000'000;
        answer.body =
            file_state_json({.bytes = call.part ? call.part->offset + call.part->bytes : 0, .complete = complete});
        return answer;
      }
      case AgentAsk::kLoad: {
        const LoadCommand command = parse_load_command(call.body).value();
        load = command.load;
        shard = command.shard;
        EXPECT_EQ(command.watched, wants_feed);
        state = AgentState::kReady;
        break;
      }
      case AgentAsk::kStart: {
        const AgentStart command = parse_agent_start(call.body).value();
        if (command.at < clock(now)) {
          answer.status = 504;
          answer.body = R"({"error":{"message":"told too late"}})";
          return answer;
        }
        started = command;
        stopped = command.stop;
        state = AgentState::kRunning;
        break;
      }
      case AgentAsk::kChange:
        changes.push_back(parse_agent_change(call.body).value());
        break;
      case AgentAsk::kStop:
        stopped = std::min(stopped.value_or(clock(now)), clock(now));
        break;
      case AgentAsk::kSamples: {
        const std::size_t at = call.target.find("after=") + 6;
        answer.body = outbox.page_after(std::stoull(call.target.substr(at))).value();
        return answer;
      }
      case AgentAsk::kFeed: {
        const std::size_t at = call.target.find("after=") + 6;
        answer.body =
            feed.page_after(std::stoull(call.target.substr(at)), [&] { return page_until(clock(now)); }).value();
        return answer;
      }
      case AgentAsk::kRelease:
        state = AgentState::kIdle;
        load.clear();
        break;
      case AgentAsk::kLook:
        break;
    }
    answer.body = agent_report_json(report());
    return answer;
  }

  [[nodiscard]] AgentReport report() const {
    AgentReport report{.kvist_version = version,
                       .protocol = kAgentProtocol,
                       .threads = threads,
                       .state = state,
                       .load = load,
                       .schedule = schedule};
    report.client.loops.resize(threads);
    report.client.loops.front().loop_delay_max_ms = 100.0 * threads;
    report.client.cpu_seconds = threads;
    report.progress.succeeded = next;
    report.progress.window.turns_per_s = 10;
    report.exhausted = state == AgentState::kEnded && next == conversations;
    return report;
  }

  /// Sends what was due by then.
  void drive(TimePoint now) {
    if (!started || state == AgentState::kEnded || load.empty()) return;
    for (; next < conversations; ++next) {
      const TimePoint due = started->at + kGap * static_cast<int>(next);
      if (due + milliseconds(3) > now || (stopped && due >= *stopped)) break;
      if (next % shard.count < shard.index || next % shard.count >= shard.index + threads) continue;
      TurnSample sample;
      sample.conversation = ConversationId(next);
      sample.intended = sample.ready = sample.handed = sample.sent = due;
      sample.first_token = due + milliseconds(2);
      sample.last_token = sample.ended = due + milliseconds(3);
      outbox.add({sample});
    }
    if ((stopped && now >= *stopped) || next == conversations) state = AgentState::kEnded;
  }
};

/// Carries calls to agents and answers back, in virtual time.
class FakeNetwork {
 public:
  FakeNetwork(Coordination& coordination, std::vector<FakeAgent>& agents)
      : coordination_(coordination), agents_(agents), asking_(agents.size()) {}

  void run_until(const std::function<bool()>& done, Duration limit = seconds(100)) {
    const TimePoint end = now_ + limit;
    for (coordination_.advance(); !done() && now_ < end; coordination_.advance()) step(end);
    EXPECT_TRUE(done()) << "not within the limit";
  }
  void run_for(Duration span) {
    const TimePoint end = now_ + span;
    for (coordination_.advance(); now_ < end; coordination_.advance()) step(end);
  }
  [[nodiscard]] TimePoint now() const { return now_; }

 private:
  struct Answer {
    TimePoint at;
    std::size_t agent;
    Result<AgentAnswer> answer;
  };

  void ask(std::size_t i, const AgentCall& call) {
    FakeAgent& agent = agents_[i];
    asking_[i] = true;
    if (agent.dies && now_ + agent.there >= *agent.dies) {
      answers_.push_back({now_ + agent.there, i, fail(ErrorCode::kUnavailable, "connection refused")});
      return;
    }
    std::optional<AgentAnswer> answer = agent.instead ? agent.instead(call) : std::nullopt;
    if (!answer) answer = agent.answer(call, now_ + agent.there);
    answer->sent = now_;
    answer->received = now_ + agent.there + agent.back;
    answers_.push_back({answer->received, i, *answer});
  }

  void step(TimePoint end) {
    std::optional<TimePoint> next;
    const auto earlier = [&next](TimePoint at) { next = std::min(next.value_or(at), at); };
    for (std::size_t i = 0; i < agents_.size(); ++i) {
      if (asking_[i]) continue;
      if (const auto call = coordination_.agents()[i].next(now_)) ask(i, *call);
      if (const auto due = coordination_.agents()[i].next_due()) earlier(*due);
    }
    for (const Answer& answer : answers_) earlier(answer.at);
    now_ = std::min(end, std::max(now_, next.value_or(end)));
    for (std::size_t k = 0; k < answers_.size();) {
      if (answers_[k].at > now_) {
        ++k;
        continue;
      }
      const Answer answer = answers_[k];
      answers_.erase(answers_.begin() + static_cast<std::ptrdiff_t>(k));
      asking_[answer.agent] = false;
      coordination_.agents()[answer.agent].on_answer(answer.answer, now_);
      coordination_.advance();
    }
  }

  Coordination& coordination_;
  std::vector<FakeAgent>& agents_;
  std::vector<bool> asking_;
  std::vector<Answer> answers_;
  TimePoint now_{seconds(1'000)};
};

class CoordinationTest : public ::testing::Test {
 protected:
  void make(std::vector<FakeAgent> agents, std::uint32_t level = 60) {
    agents_ = std::move(agents);
    std::vector<std::string> names;
    for (std::size_t i = 0; i < agents_.size(); ++i) names.push_back("agent-" + std::to_string(i));
    coordination_.emplace(names, load_, workload_, level);
    network_.emplace(*coordination_, agents_);
  }
  void ready() {
    network_->run_until([&] { return coordination_->state() != Coordination::State::kPreparing; });
    ASSERT_EQ(coordination_->state(), Coordination::State::kReady) << coordination_->error().value_or(Error{}).message;
  }
  void run_to_end() {
    network_->run_until([&] { return coordination_->state() == Coordination::State::kDone; });
  }
  std::string failure() {
    network_->run_until([&] {
      return coordination_->state() == Coordination::State::kFailed &&
             std::ranges::all_of(coordination_->agents(), &AgentDialogue::is_over);
    });
    return coordination_->error()->message;
  }

  CoordinatedLoad load_{.name = "load-1", .order = "{}", .files = {}, .schedule = "same"};
  spec::WorkloadSpec workload_ = [] {
    spec::WorkloadSpec workload;
    workload.arrivals = {.kind = spec::ArrivalKind::kConstant, .rate_per_s = 100};
    return workload;
  }();
  std::vector<FakeAgent> agents_;
  std::optional<Coordination> coordination_;
  std::optional<FakeNetwork> network_;
};

TEST(DivideTest, EveryPartIsSomebodysAndNobodysTwice) {
  for (const std::vector<std::uint32_t>& threads : {std::vector<std::uint32_t>{1}, {1, 1}, {3, 1, 4}, {256, 1, 2, 2}}) {
    const std::vector<workload::Shard> parts = divide(threads);
    std::vector<int> owners(parts.front().count, 0);
    std::uint32_t places = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      for (std::uint32_t t = 0; t < threads[i]; ++t) {
        const workload::Shard part{.index = parts[i].index + t, .count = parts[i].count};
        ++owners.at(part.index);
        places += part.share(1'001U);
      }
    }
    EXPECT_TRUE(std::ranges::all_of(owners, [](int n) { return n == 1; }));
    EXPECT_EQ(places, 1'001U);
  }
}

TEST_F(CoordinationTest, AllDriveTheirPartsFromOneInstantOnAndSamplesComeInOneTime) {
  make({{.threads = 1, .ahead = seconds(500), .there = milliseconds(3)},
        {.threads = 2, .ahead = -seconds(700), .drift = 40e-6, .back = milliseconds(2)}});
  ready();
  const TimePoint at = coordination_->start(seconds(5), network_->now());
  EXPECT_GT(at, network_->now() + Coordination::kLead);
  run_to_end();
  EXPECT_EQ(agents_[0].shard.index, 0U);
  EXPECT_EQ(agents_[1].shard.index, 1U);
  EXPECT_EQ(agents_[1].shard.count, 3U);
  const std::vector<TurnSample> samples = coordination_->take_samples();
  ASSERT_EQ(samples.size(), 500U);  // 5 s, one each 10 ms
  std::set<std::uint64_t> ids;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const TurnSample& sample = samples[i];
    ids.insert(sample.conversation.value());
    const Duration off = sample.sent - (at + kGap * static_cast<int>(sample.conversation.value()));
    EXPECT_LE(std::chrono::abs(off), milliseconds(4));
    EXPECT_EQ(sample.ended - sample.sent, milliseconds(3));  // moved as a whole
    if (i > 0) {
      EXPECT_LE(samples[i - 1].ended, sample.ended);
    }
  }
  EXPECT_EQ(ids.size(), 500U);
  const ClockComparison& drifting = *coordination_->agents()[1].clock();
  EXPECT_LE(std::chrono::abs(drifting.before().ahead + seconds(700) - milliseconds(40)), drifting.bound());
  EXPECT_FALSE(drifting.jumped());
  EXPECT_EQ(coordination_->client_load().loop_delay_max_ms, 200);  // the worst
  EXPECT_EQ(coordination_->client_load().loops.size(), 3U);
  EXPECT_TRUE(coordination_->take_samples().empty());
  for (const FakeAgent& agent : agents_) EXPECT_EQ(agent.asked.back(), "POST /load/release");
}

TEST_F(CoordinationTest, WhatHappensIsToldInOneOrderOfOneTime) {
  load_.watched = true;
  make({{.threads = 1, .ahead = seconds(500), .there = milliseconds(30), .wants_feed = true},
        {.threads = 2, .ahead = -seconds(700), .drift = 40e-6, .back = milliseconds(2), .wants_feed = true}});
  ready();
  EXPECT_TRUE(coordination_->take_batch().started.empty());
  const TimePoint at = coordination_->start(seconds(5), network_->now());
  TimePoint last{};
  std::set<std::uint64_t> told;
  std::size_t gaps = 0, starts = 0, first_tokens = 0;
  const auto take = [&] {
    const workload::LoadBatch batch = coordination_->take_batch();
    for (const auto& started : batch.started) {
      EXPECT_GE(started.at, last) << "windows need one order";
      last = started.at;
      const Duration off = started.at - (at + kGap * static_cast<int>(started.conversation.value()));
      EXPECT_LE(std::chrono::abs(off), milliseconds(40));  // half of the slowest round trip, and the drift
      told.insert(started.conversation.value());
    }
    starts += batch.conversation_starts.size();
    first_tokens += batch.first_tokens.size();
    gaps += batch.gaps_ms.size();
    EXPECT_EQ(batch.lost, 0U);
  };
  for (int i = 0; i < 30; ++i) {
    network_->run_for(milliseconds(250));
    take();
    if (i == 15) {
      EXPECT_GT(told.size(), 200U) << "while it runs";
    }
  }
  run_to_end();
  take();
  EXPECT_EQ(told.size(), 500U);
  EXPECT_EQ(gaps, 500U);
  EXPECT_EQ(starts, 500U);
  EXPECT_EQ(first_tokens, 500U);
  EXPECT_EQ(coordination_->totals().turns_succeeded, 1'000U) << "of both";
}

TEST_F(CoordinationTest, AnAgentThatDiesDoesNotHoldUpWhatTheOthersTell) {
  load_.watched = true;
  make({{.wants_feed = true}, {.dies = TimePoint(seconds(1'004)), .wants_feed = true}});
  ready();
  (void)coordination_->start(seconds(20), network_->now());
  network_->run_for(seconds(15));
  EXPECT_EQ(coordination_->agents()[1].phase(), AgentPhase::kLost);
  std::uint64_t latest = 0;
  for (const auto& started : coordination_->take_batch().started)
    latest = std::max(latest, started.conversation.value());
  EXPECT_GT(latest, 1'300U);
}

TEST_F(CoordinationTest, SettingsAreThoseOfTheChangesThatHaveCome) {
  workload_.arrivals = {};
  make({{}, {}}, 6);
  ready();
  (void)coordination_->start(seconds(20), network_->now());
  EXPECT_EQ(coordination_->settings(network_->now()).concurrency, 6U);
  ASSERT_TRUE(coordination_->change({.concurrency = 9}, network_->now()).has_value());
  EXPECT_EQ(coordination_->settings(network_->now()).concurrency, 6U) << "in a moment";
  EXPECT_EQ(coordination_->settings(network_->now() + seconds(2)).concurrency, 9U);
}

TEST_F(CoordinationTest, ALoadThatEndsByItselfIsWaitedFor) {
  make({{.conversations = 40}, {.conversations = 40}});
  ready();
  (void)coordination_->start({}, network_->now());
  run_to_end();
  EXPECT_TRUE(coordination_->is_exhausted());
  EXPECT_EQ(coordination_->take_samples().size(), 40U);
}

TEST_F(CoordinationTest, AnotherVersionScheduleOrCoordinatorIsRefusedAndAllAreReleased) {
  make({{}, {.version = "0.0.7"}});
  EXPECT_THAT(failure(), HasSubstr("agent agent-1: runs kvist 0.0.7"));
  make({{}, {.schedule = "other"}});
  EXPECT_THAT(failure(), HasSubstr("agent agent-1: would drive another load"));
  EXPECT_EQ(agents_[0].asked.back(), "POST /load/release");
  make({{.state = AgentState::kRunning}, {}});
  EXPECT_THAT(failure(), HasSubstr("agent agent-0: drives a load of another coordinator"));
  make({{}, {.dies = TimePoint{}}});
  EXPECT_THAT(failure(), HasSubstr("agent agent-1: connection refused"));
}

TEST_F(CoordinationTest, AClosedLoopNeedsAPlaceForEachThread) {
  workload_.arrivals = {};
  make({{.threads = 4}, {.threads = 3}}, 6);
  EXPECT_THAT(failure(), HasSubstr("6 conversations at once on 7 threads of 2 agents"));
}

TEST_F(CoordinationTest, AnAgentThatDiesIsLostWithWhatItHadNotSentAndTheOthersGoOn) {
  make({{}, {.dies = TimePoint(seconds(1'004))}});
  ready();
  (void)coordination_->start(seconds(20), network_->now());
  run_to_end();
  const AgentDialogue& dead = coordination_->agents()[1];
  EXPECT_EQ(dead.phase(), AgentPhase::kLost);
  EXPECT_EQ(dead.error()->message, "connection refused");
  EXPECT_GE(dead.lost_at(), TimePoint(seconds(1'008)));
  EXPECT_EQ(coordination_->agents()[0].phase(), AgentPhase::kDone);
  std::size_t of_dead = 0;
  const std::vector<TurnSample> samples = coordination_->take_samples();
  for (const TurnSample& sample : samples) of_dead += sample.conversation.value() % 2;
  EXPECT_EQ(samples.size() - of_dead, 1'000U);
  EXPECT_GT(of_dead, 100U);  // of some 3 s
  EXPECT_LT(of_dead, 200U);
}

TEST_F(CoordinationTest, AShortSilenceIsNoLoss) {
  make({{}, {}});
  ready();
  (void)coordination_->start(seconds(10), network_->now());
  network_->run_for(seconds(3));
  agents_[1].dies = network_->now();
  network_->run_for(seconds(3));
  agents_[1].dies.reset();
  run_to_end();
  EXPECT_EQ(coordination_->agents()[1].phase(), AgentPhase::kDone);
  EXPECT_EQ(coordination_->take_samples().size(), 1'000U);
}

TEST_F(CoordinationTest, AnAgentThatIsToldTooLateIsLostAndTheOthersStart) {
  make({{}, {}});
  ready();
  agents_[1].there = seconds(2);
  (void)coordination_->start(seconds(2), network_->now());
  run_to_end();
  EXPECT_EQ(coordination_->agents()[1].phase(), AgentPhase::kLost);
  EXPECT_THAT(coordination_->agents()[1].error()->message, HasSubstr("told too late"));
  EXPECT_EQ(coordination_->take_samples().size(), 100U);
}

TEST_F(CoordinationTest, AnAgentThatForgotTheLoadOrSendsOthersSamplesIsLost) {
  make({{}, {}});
  ready();
  (void)coordination_->start(seconds(4), network_->now());
  network_->run_for(seconds(2));
  agents_[0].load = "another";
  agents_[1].instead = [](const AgentCall& call) -> std::optional<AgentAnswer> {
    if (call.ask != AgentAsk::kSamples) return std::nullopt;
    TurnSample sample;
    sample.conversation = ConversationId(8);  // even: the other agent's
    const std::uint64_t after = std::stoull(call.target.substr(call.target.find("after=") + 6));
    return AgentAnswer{.status = 200,
                       .body = write_sample_page({.first = after, .more = false, .samples = {sample}}),
                       .sent = {},
                       .received = {}};
  };
  run_to_end();
  EXPECT_THAT(coordination_->agents()[0].error()->message, HasSubstr("does not have the load any more"));
  EXPECT_THAT(coordination_->agents()[1].error()->message, HasSubstr("which is not its own"));
}

TEST_F(CoordinationTest, ChangesAreOrderedForOneInstantOfAllClocks) {
  make({{.ahead = seconds(50)}, {.ahead = -seconds(50)}});
  ready();
  EXPECT_THAT(coordination_->change({.rate = 5}, network_->now()).error().message, HasSubstr("not running"));
  (void)coordination_->start({}, network_->now());
  network_->run_for(seconds(2));
  EXPECT_THAT(coordination_->change({.concurrency = 5}, network_->now()).error().message, HasSubstr("closed"));
  EXPECT_THAT(coordination_->change({.max_in_flight = 1}, network_->now()).error().message,
              HasSubstr("want at least 2"));
  ASSERT_TRUE(coordination_->change({.rate = 5}, network_->now()).has_value());
  network_->run_for(seconds(1));
  coordination_->stop(true);
  run_to_end();
  ASSERT_EQ(coordination_->changes().size(), 1U);
  for (const FakeAgent& agent : agents_) {
    ASSERT_EQ(agent.changes.size(), 1U);
    EXPECT_EQ(agent.changes[0].change.rate, 5);
    EXPECT_LE(std::chrono::abs(agent.changes[0].at - (coordination_->changes()[0].at + agent.ahead)), milliseconds(1));
  }
}

TEST_F(CoordinationTest, FilesAreSentInPartsAndAPreparedLoadIsKeptAlive) {
  load_.files = {{.path = "f", .sha256 = "aa", .bytes = 3'000'000}};
  make({{}});
  ready();
  EXPECT_THAT(agents_[0].asked, ::testing::IsSupersetOf({"GET /files", "PUT /files", "PUT /files", "PUT /files"}));
  const std::size_t before = agents_[0].asked.size();
  network_->run_for(seconds(20));
  EXPECT_GE(agents_[0].asked.size(), before + 6);
}

TEST_F(CoordinationTest, GivenUpBeforeTheStartEveryAgentIsTold) {
  make({{}, {}});
  ready();
  coordination_->stop(true);
  EXPECT_THAT(failure(), HasSubstr("given up"));
  for (const FakeAgent& agent : agents_) EXPECT_EQ(agent.asked.back(), "POST /load/release");
}

}  // namespace
}  // namespace kvist::loadgen::coordination_test
