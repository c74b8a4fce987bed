#include "kvist/loadgen/agents/agent.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "kvist/loadgen/agents/remote_load.h"
#include "kvist/loadgen/agents/sample_page.h"
#include "kvist/loadgen/threaded_load.h"
#include "kvist/workload/load_input.h"
#include "loadgen/service_fixture.h"

namespace kvist::loadgen::agent_test {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr std::uint32_t kLevel = 24'000;  // starts per minute
constexpr std::uint64_t kSeed = 5;

class AgentTest : public ServiceFixture {
 protected:
  void SetUp() override {
    ServiceFixture::SetUp();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("agent-" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(folder_);
    options_.workload.arrivals = {.kind = spec::ArrivalKind::kConstant, .rate_per_s = 400};
    on_loop([&] {
      server_ =
          std::make_unique<ScriptedServer>(loop_, [](std::size_t, auto exchange) { answer(*exchange, {"x", "y"}); });
    });
    options_.target_url = server_->url();
  }
  void TearDown() override {
    on_loop([this] {
      remote_.reset();
      load_.reset();
      agents_.clear();
    });
    ServiceFixture::TearDown();
    std::filesystem::remove_all(folder_);
  }

  std::uint16_t add_agent(std::uint32_t threads = 1, Duration lease = std::chrono::seconds(30),
                          std::optional<net::BearerKeys> keys = {}) {
    return on_loop([&] {
      AgentOptions options;
      options.threads = threads;
      options.folder = folder_ / std::to_string(agents_.size());
      options.lease = lease;
      options.keys = std::move(keys);
      std::filesystem::create_directories(options.folder);
      options.read_order = [this](const std::string& order) -> Result<AgentOrder> {
        if (order != "{}") return fail(ErrorCode::kInvalidArgument, "order: want {}");
        return AgentOrder{.options = options_, .level = kLevel, .seed = kSeed};
      };
      agents_.push_back(std::move(Agent::create(loop_, std::move(options)).value()));
      return agents_.back()->port();
    });
  }

  RemoteLoadOptions remote_options(const std::vector<std::uint16_t>& ports) {
    const auto texts = workload::prepare_texts(options_.workload, options_.input, kSeed).value();
    RemoteLoadOptions remote;
    for (const std::uint16_t port : ports) remote.agents.push_back("http://127.0.0.1:" + std::to_string(port));
    remote.load = {.name = "load-1",
                   .order = "{}",
                   .files = {},
                   .schedule = schedule_digest({.options = options_, .level = kLevel, .seed = kSeed}, texts)};
    remote.workload = options_.workload;
    remote.level = kLevel;
    remote.seed = kSeed;
    return remote;
  }
  Result<void> open(RemoteLoadOptions remote) {
    std::promise<Result<void>> ready;
    on_loop([&] {
      remote_ = std::move(RemoteLoad::create(loop_, std::move(remote)).value());
      remote_->open([&ready](Result<void> result) { ready.set_value(std::move(result)); });
    });
    return ready.get_future().get();
  }
  /// Starts what is open and waits until it has ended by itself.
  void run_to_end() {
    std::promise<void> ended;
    on_loop([&] {
      remote_->on_ended([&ended] { ended.set_value(); });
      ASSERT_TRUE(remote_->start(kLevel, kSeed).has_value());
    });
    ASSERT_EQ(ended.get_future().wait_for(std::chrono::seconds(100)), std::future_status::ready);
  }

  /// The bodies of all requests that the target got, by their ids.
  std::map<std::string, std::string> requests() {
    std::map<std::string, std::string> all;
    for (const net::HttpRequest& request : on_loop([&] { return server_->requests(); })) {
      all[std::string(request.headers.find("X-Request-Id").value_or(""))] = request.body;
    }
    return all;
  }

  net::HttpResponse ask(std::uint16_t port, const std::string& method, const std::string& path, std::string body = {},
                        net::Headers headers = {}) {
    if (method != "GET") headers.add("Content-Type", "application/json");
    return net::fetch_blocking(method, "http://127.0.0.1:" + std::to_string(port) + path, std::move(body),
                               std::chrono::seconds(100), std::move(headers))
        .value();
  }
  AgentReport look(std::uint16_t port) { return parse_agent_report(ask(port, "GET", "/agent").body).value(); }
  void await_state(std::size_t agent, AgentState state) {
    await([&, agent, state] { return agents_[agent]->state() == state; });
  }

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<Agent>> agents_;
  std::unique_ptr<RemoteLoad> remote_;
  std::unique_ptr<Load> load_;
};

TEST_F(AgentTest, TwoAgentsSendTogetherWhatOneProcessSends) {
  options_.max_turns = 30;
  // First by one process.
  std::promise<void> ended;
  on_loop([&] {
    load_ = std::move(make_threaded_load(loop_, options_, 1).value());
    load_->on_ended([&ended] { ended.set_value(); });
    ASSERT_TRUE(load_->start(kLevel, kSeed).has_value());
  });
  ASSERT_EQ(ended.get_future().wait_for(std::chrono::seconds(100)), std::future_status::ready);
  const std::map<std::string, std::string> alone = requests();
  ASSERT_THAT(alone, SizeIs(30));

  on_loop([&] { server_.reset(); });
  on_loop([&] {
    server_ =
        std::make_unique<ScriptedServer>(loop_, [](std::size_t, auto exchange) { answer(*exchange, {"x", "y"}); });
  });
  options_.target_url = on_loop([&] { return server_->url(); });
  const std::vector<std::uint16_t> ports = {add_agent(1), add_agent(2)};
  const Result<void> opened = open(remote_options(ports));
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  run_to_end();
  EXPECT_EQ(requests(), alone);

  const auto samples = on_loop([&] { return remote_->take_samples(); });
  ASSERT_THAT(samples, SizeIs(30));
  const TimePoint at = on_loop([&] { return *remote_->begins_at(); });
  Duration bound{};
  for (const AgentDialogue& agent : remote_->coordination().agents()) {
    // The agents are on this machine, so the clocks are one.
    EXPECT_LE(std::chrono::abs(agent.clock()->before().ahead), agent.clock()->before().bound);
    ASSERT_TRUE(agent.clock()->after().has_value());
    bound = std::max(bound, agent.clock()->bound());
  }
  for (const workload::TurnSample& sample : samples) {
    EXPECT_EQ(sample.outcome, workload::TurnOutcome::kSucceeded) << sample.error;
    const TimePoint due = at + std::chrono::microseconds(2'500) * static_cast<int>(sample.conversation.value());
    // Told by one offset, told back by another.
    EXPECT_LE(std::chrono::abs(sample.intended - due), 2 * bound);
  }
  EXPECT_TRUE(on_loop([&] { return remote_->is_exhausted(); }));
  EXPECT_THAT(on_loop([&] { return remote_->client_load(); }).loops, SizeIs(3));
  for (const std::uint16_t port : ports) EXPECT_EQ(look(port).state, AgentState::kIdle);
}

TEST_F(AgentTest, AChangeHoldsForAllAgentsFromOneInstantOn) {
  options_.workload.arrivals = {.kind = spec::ArrivalKind::kConstant, .rate_per_s = 100};
  ASSERT_TRUE(open(remote_options({add_agent(), add_agent()})).has_value());
  on_loop([&] { ASSERT_TRUE(remote_->start(kLevel, kSeed).has_value()); });
  await([&] { return server_->requests().size() >= 20; });
  std::promise<void> stopped;
  on_loop([&] { ASSERT_TRUE(remote_->change({.rate = 400}).has_value()); });
  const std::size_t before = requests_seen();
  await([&] { return server_->requests().size() >= before + 200; });
  on_loop([&] { remote_->stop(true, [&stopped] { stopped.set_value(); }); });
  ASSERT_EQ(stopped.get_future().wait_for(std::chrono::seconds(100)), std::future_status::ready);
  auto samples = on_loop([&] { return remote_->take_samples(); });
  std::ranges::sort(samples, {}, &workload::TurnSample::intended);
  const auto changes = on_loop([&] { return remote_->changes(); });
  ASSERT_THAT(changes, SizeIs(1));
  Duration bound{};  // of what is known of each clock: instants of two agents are compared
  for (const AgentDialogue& agent : remote_->coordination().agents()) bound = std::max(bound, agent.clock()->bound());
  const Duration slack = milliseconds(1) + 4 * bound;
  int slow = 0;
  int fast = 0;
  std::uint64_t next[] = {0, 1};  // one schedule: the ids alternate between the agents, until each hears of the stop
  for (const workload::TurnSample& sample : samples) {
    std::uint64_t& due = next[sample.conversation.value() % 2];
    EXPECT_EQ(sample.conversation.value(), due);
    due += 2;
  }
  for (std::size_t i = 1; i < samples.size(); ++i) {
    if (samples[i].conversation.value() != samples[i - 1].conversation.value() + 1) continue;  // after one's stop
    const Duration gap = samples[i].intended - samples[i - 1].intended;
    const bool after = samples[i - 1].intended > changes[0].at + slack;
    const bool until = samples[i].intended < changes[0].at - slack;
    if (after) ++fast;
    if (until) ++slow;
    if (after || until) {
      EXPECT_NEAR(to_milliseconds(gap), after ? 2.5 : 10, to_milliseconds(slack)) << i;
    }
  }
  EXPECT_GT(slow, 10);
  EXPECT_GT(fast, 50);
}

TEST_F(AgentTest, RatesOfAYoungLoadAreOverItsAge) {
  const std::uint16_t port = add_agent();
  ASSERT_TRUE(open(remote_options({port})).has_value());
  on_loop([&] { ASSERT_TRUE(remote_->start(kLevel, kSeed).has_value()); });
  await([&] { return server_->requests().size() >= 400; });
  // One second after the start, of the ten that the window has later on.
  const double started = static_cast<double>(requests_seen());
  EXPECT_GT(look(port).progress.window.conversation_starts_per_s, 2 * started / 10);
}

TEST_F(AgentTest, OneLoadAtATimeAndCommandsOutOfTurnAreRefused) {
  const std::uint16_t port = add_agent();
  const std::string load = R"({"load":"a","first":0,"of":2,"order":{}})";
  EXPECT_EQ(ask(port, "POST", "/load/start", R"({"load":"a","at_ns":1})").status, 404);
  EXPECT_EQ(ask(port, "POST", "/load", load).status, 200);
  await_state(0, AgentState::kReady);
  EXPECT_EQ(ask(port, "POST", "/load", load).status, 200);  // the same again
  const auto other = ask(port, "POST", "/load", R"({"load":"b","first":0,"of":2,"order":{}})");
  EXPECT_EQ(other.status, 429);
  EXPECT_THAT(other.body, HasSubstr("another coordinator"));
  EXPECT_EQ(ask(port, "POST", "/load/start", R"({"load":"b","at_ns":1})").status, 404);
  const auto late = ask(port, "POST", "/load/start", R"({"load":"a","at_ns":1})");
  EXPECT_EQ(late.status, 504);
  EXPECT_THAT(late.body, HasSubstr("too late"));
  EXPECT_EQ(ask(port, "PATCH", "/load", R"({"load":"a","at_ns":1,"change":{"rate":3}})").status, 400);
  EXPECT_EQ(ask(port, "GET", "/load/samples?load=a&after=1").status, 400);
  EXPECT_EQ(ask(port, "GET", "/load/samples?load=b&after=0").status, 404);
  EXPECT_EQ(ask(port, "GET", "/load/samples?load=a").status, 400);
  EXPECT_EQ(ask(port, "POST", "/load/release", R"({"load":"b"})").status, 200);
  EXPECT_EQ(look(port).state, AgentState::kReady);
  EXPECT_EQ(ask(port, "POST", "/load/release", R"({"load":"a"})").status, 200);
  EXPECT_EQ(look(port).state, AgentState::kIdle);
  EXPECT_EQ(ask(port, "POST", "/load", R"({"load":"c","first":2,"of":2,"order":{}})").status, 400);
  EXPECT_EQ(ask(port, "POST", "/load", R"({"load":"c","first":0,"of":1,"order":{"x":1}})").status, 200);
  await_state(0, AgentState::kFailed);
  EXPECT_EQ(look(port).error, "order: want {}");
  EXPECT_EQ(ask(port, "POST", "/load", load).status, 200);  // what failed is in nobody's way
  await_state(0, AgentState::kReady);
  EXPECT_EQ(server_->requests().size(), 0U);
}

TEST_F(AgentTest, ALoadOfWhichNobodyAsksIsGivenUp) {
  const std::uint16_t port = add_agent(1, milliseconds(300));
  EXPECT_EQ(ask(port, "POST", "/load", R"({"load":"a","first":0,"of":1,"order":{}})").status, 200);
  await_state(0, AgentState::kReady);
  const auto at = (net::now() + milliseconds(100)).time_since_epoch().count();
  EXPECT_EQ(ask(port, "POST", "/load/start", R"({"load":"a","at_ns":)" + std::to_string(at) + "}").status, 200);
  await([&] { return server_->requests().size() >= 5; });
  await_state(0, AgentState::kIdle);
  EXPECT_EQ(look(port).load, "");
}

TEST_F(AgentTest, FilesAreKnownByTheirDigests) {
  const std::uint16_t port = add_agent();
  const std::string digest = net::to_hex(net::sha256("hello"));
  EXPECT_EQ(ask(port, "GET", "/files?sha256=xyz").status, 400);
  EXPECT_FALSE(parse_file_state(ask(port, "GET", "/files?sha256=" + digest).body)->complete);
  EXPECT_EQ(ask(port, "PUT", "/files?sha256=" + digest + "&offset=0", "hello").status, 400);
  EXPECT_EQ(ask(port, "PUT", "/files?sha256=" + digest + "&offset=0&bytes=5", "hallo").status, 400);
  EXPECT_EQ(ask(port, "PUT", "/files?sha256=" + digest + "&offset=0&bytes=5", "hello").status, 200);
  EXPECT_TRUE(parse_file_state(ask(port, "GET", "/files?sha256=" + digest).body)->complete);
}

TEST_F(AgentTest, WithoutAKeyNothingIsAnswered) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ / "keys") << "the-key\n";
  const std::uint16_t port =
      add_agent(1, std::chrono::seconds(30), net::BearerKeys::read((folder_ / "keys").string()).value());
  EXPECT_EQ(ask(port, "GET", "/agent").status, 401);
  EXPECT_EQ(ask(port, "POST", "/load", "{}").status, 401);
  net::Headers headers;
  headers.add("Authorization", "Bearer the-key");
  EXPECT_EQ(ask(port, "GET", "/agent", {}, headers).status, 200);
  RemoteLoadOptions remote = remote_options({port});
  EXPECT_THAT(open(remote).error().message, HasSubstr("API key"));
  remote.server.bearer_key = "the-key";
  const Result<void> opened = open(remote);
  EXPECT_TRUE(opened.has_value()) << opened.error().message;
}

TEST(ParseAgentsTest, AddressesOrUrlsEachOnce) {
  EXPECT_EQ(parse_agents("a:1,https://b:2").value(), (std::vector<std::string>{"http://a:1", "https://b:2"}));
  EXPECT_THAT(parse_agents("").error().message, HasSubstr("0 agents"));
  EXPECT_THAT(parse_agents("a:1,http://a:1/").error().message, HasSubstr("named twice"));
  EXPECT_THAT(parse_agents("a:1/path").error().message, HasSubstr("expected http"));
  EXPECT_THAT(parse_agents("a:1,,b:1").error().message, HasSubstr("expected http"));
}

}  // namespace
}  // namespace kvist::loadgen::agent_test
