// A fleet that changes under load, against a model that knows workers by name: nothing of one that was removed is
// credited to the next one in its place.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/dispatch/dispatcher.h"
#include "kvist/dispatch/worker_places.h"

namespace kvist::dispatch::changing_fleet_test {
namespace {

constexpr std::uint32_t kBlockSize = 4;
constexpr std::uint32_t kPromptBlocks = 3;
constexpr std::size_t kPlaces = 4;
constexpr int kSteps = 6'000;

std::uint64_t test_seed() {
  const char* const given = std::getenv("KVIST_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20'261'123;
}

std::vector<TokenId> prompt_tokens(std::uint32_t prompt) {
  std::vector<TokenId> tokens;
  for (std::uint32_t i = 0; i < kPromptBlocks * kBlockSize + 1; ++i) tokens.emplace_back(1'000 * prompt + i);
  return tokens;
}

/// What the model knows of a worker, by its name.
struct Known {
  WorkerId place;
  PlaceState state = PlaceState::kServing;
  std::uint64_t completed = 0;
  std::uint64_t failed = 0;
  std::uint64_t answers = 0;            // that reported usage
  std::set<std::uint32_t> stored = {};  // prompts by its events
  std::set<std::uint32_t> routed = {};  // prompts that went there
};

struct Live {
  Ticket ticket;
  std::string worker;
  std::uint32_t prompt = 0;
  bool decoding = false;
};

class ChangingFleet {
 public:
  ChangingFleet(std::uint64_t seed, spec::RoutingMode mode)
      : random_(seed), router_({.model = "m", .block_size = kBlockSize, .workers = kPlaces, .mode = mode, .seed = 1}) {}

  void run() {
    for (int step = 0; step < kSteps && !::testing::Test::HasFailure(); ++step) {
      now_ += std::chrono::milliseconds(random_.uniform_int(1, 40));
      act();
      poll();
      check();
    }
    EXPECT_GT(added_, 3 * kPlaces) << "places were taken again and again";
    EXPECT_GT(moved_, 0) << "requests left workers that were removed";
    EXPECT_GT(completed_, 100);
  }

 private:
  std::uint32_t below(std::size_t bound) {
    return static_cast<std::uint32_t>(random_.uniform_int(0, static_cast<std::int64_t>(bound) - 1));
  }
  std::map<std::string, Known>::iterator any() { return std::next(known_.begin(), below(known_.size())); }

  void act() {
    const std::uint32_t dice = below(100);
    if (dice < 6) return add();
    if (known_.empty()) return;
    if (dice < 8) return change(&WorkerPlaces::cordon, PlaceState::kCordoned);
    if (dice < 11) return change(&WorkerPlaces::uncordon, PlaceState::kServing);
    if (dice < 13) return drain();
    if (dice < 15) return remove();
    if (dice < 45) return start();
    if (dice < 60) return store_events();
    if (dice < 62 && !gone_.empty()) return speak_of_the_gone();
    if (!live_.empty()) return go_on();
  }

  void add() {
    const std::string name = "w" + std::to_string(below(7));
    const auto place = places_.add(name, now_);
    const bool may = known_.size() < kPlaces && !known_.contains(name);
    ASSERT_EQ(place.has_value(), may);
    if (!may) return;
    fleet_.occupy(*place, name);
    fleet_.on_success(*place, now_);
    fleet_.set_events_exact(*place, true);
    known_[name] = {.place = *place};
    ++added_;
    expect_new(*place);
  }

  /// Nothing is known of the worker in this place.
  void expect_new(WorkerId place) {
    const std::size_t i = place.value();
    EXPECT_EQ(router_.index().worker_blocks(place), 0U);
    EXPECT_EQ(router_.index().counters(place).stored_blocks, 0U);
    EXPECT_EQ(router_.loads().load(place), routing::WorkerLoad{});
    EXPECT_EQ(router_.forecaster().model(place).first_token_error().observations, 0U);
    EXPECT_EQ(router_.forecaster().model(place).step_error().observations, 0U);
    EXPECT_EQ(router_.forecaster().latency().own_share(place, now_), 0);
    EXPECT_EQ(router_.forecaster().mean_requests(place, now_), 0);
    const routing::CacheTrustReport trust = router_.caches().report(place, true);
    EXPECT_EQ(trust.usage_reports + trust.corrections + trust.predicted_prompts + trust.predicted_blocks, 0U);
    EXPECT_EQ(trust.trust, routing::CacheTrust::kExact);
    EXPECT_EQ(dispatcher_.outliers().worker(place).total_ejections(), 0U);
    EXPECT_EQ(dispatcher_.outliers().failure_share(place, now_), 0);
    EXPECT_EQ(dispatcher_.counters().by_worker[i].of(Outcome::kCompleted), 0U);
    for (const std::uint64_t failures : dispatcher_.counters().failures[i]) EXPECT_EQ(failures, 0U);
    EXPECT_EQ(fleet_.worker(place).failures, 0U);
    EXPECT_FALSE(fleet_.worker(place).answered);
  }

  void change(Result<WorkerId> (WorkerPlaces::*how)(std::string_view, TimePoint), PlaceState to) {
    auto& [name, known] = *any();
    const bool ends =
        known.state == PlaceState::kLeaving || (known.state == PlaceState::kDraining && to == PlaceState::kCordoned);
    const auto done = (places_.*how)(name, now_);
    ASSERT_EQ(done.has_value(), !ends);
    if (ends) return;
    known.state = to;
    fleet_.set_open(known.place, to == PlaceState::kServing);
  }

  void drain() {
    auto& [name, known] = *any();
    const TimePoint deadline = now_ + std::chrono::milliseconds(below(500));
    const auto done = places_.drain(name, deadline, now_);
    ASSERT_EQ(done.has_value(), known.state != PlaceState::kLeaving);
    if (!done) return;
    known.state = PlaceState::kDraining;
    fleet_.set_open(known.place, false);
  }

  void remove() {
    auto& [name, known] = *any();
    ASSERT_TRUE(places_.remove(name, now_));
    if (known.state == PlaceState::kLeaving) return;
    turn_out(name);
  }

  void turn_out(const std::string& name) {
    known_[name].state = PlaceState::kLeaving;
    dispatcher_.on_worker_removed(known_[name].place, now_);
    leaving_.insert(name);
  }

  /// Requests notice one by one that their worker was removed.
  void leave_one() {
    for (std::size_t i = 0; i < live_.size(); ++i) {
      if (!leaving_.contains(live_[i].worker)) continue;
      ++moved_;
      return fail_at(i, AttemptFailure::kTransport);
    }
  }

  void start() {
    const std::uint32_t prompt = below(8);
    const auto tokens = prompt_tokens(prompt);
    const auto root = kv::root_hash({.model = "m", .lora = "", .cache_salt = ""});
    const auto ticket = dispatcher_.start(
        {.prompt_tokens = static_cast<std::uint32_t>(tokens.size()),
         .blocks = std::make_shared<const std::vector<kv::BlockHash>>(kv::hash_blocks(root, tokens, kBlockSize)),
         .streams = true},
        now_);
    if (!ticket) return;
    live_.push_back({.ticket = *ticket, .worker = {}, .prompt = prompt});
    note_decision(live_.back(), ticket->decision);
  }

  void note_decision(Live& live, const routing::Decision& decision) {
    live.worker = places_.name_at(decision.worker, decision.at);
    ASSERT_TRUE(known_.contains(live.worker));
    Known& known = known_[live.worker];
    ASSERT_EQ(known.place, decision.worker);
    ASSERT_EQ(known.state, PlaceState::kServing) << live.worker;
    const bool may_be_cached = known.stored.contains(live.prompt) || known.routed.contains(live.prompt);
    ASSERT_TRUE(may_be_cached || decision.predicted_cached_tokens == 0) << live.worker;
    known.routed.insert(live.prompt);
    live.ticket.decision = decision;
    live.decoding = false;
  }

  void go_on() {
    const std::size_t i = below(live_.size());
    Live& live = live_[i];
    const routing::RequestHandle attempt = live.ticket.decision.request;
    if (!live.decoding) {
      if (below(10) == 0)
        return fail_at(i, below(2) == 0 ? AttemptFailure::kServerError : AttemptFailure::kUnauthorized);
      dispatcher_.on_first_token(attempt, now_);
      live.decoding = true;
      return;
    }
    dispatcher_.on_progress(attempt, 1, now_);
    if (below(3) != 0) return;
    Known& known = known_.at(live.worker);
    dispatcher_.on_usage(attempt, kPromptBlocks * kBlockSize + 1, 0);
    dispatcher_.finish(live.ticket.handle, Outcome::kCompleted, now_);
    ++known.completed;
    ++completed_;
    end(i);
  }

  void fail_at(std::size_t i, AttemptFailure failure) {
    Live& live = live_[i];
    const auto next = dispatcher_.on_attempt_failed(live.ticket.handle, failure, "x", now_);
    ++known_.at(live.worker).failed;
    if (next) return note_decision(live, *next);
    dispatcher_.finish(live.ticket.handle, Outcome::kUpstreamFailed, now_);
    end(i);
  }

  void end(std::size_t i) {
    gone_.push_back(live_[i].ticket.decision.request);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  /// What other threads say too late.
  void speak_of_the_gone() {
    const routing::RequestHandle attempt = gone_[below(gone_.size())];
    dispatcher_.on_first_token(attempt, now_);
    dispatcher_.on_progress(attempt, 5, now_);
    dispatcher_.on_usage(attempt, 100, 100);
  }

  void store_events() {
    auto& [name, known] = *any();
    if (clearing_.contains(name)) return;  // its subscription has ended
    const std::uint32_t prompt = below(8);
    if (!known.stored.insert(prompt).second) return;
    kv::BlockStored event;
    event.block_size = kBlockSize;
    event.tokens = prompt_tokens(prompt);
    event.tokens.resize(kPromptBlocks * kBlockSize);
    for (std::uint64_t i = 0; i < kPromptBlocks; ++i) event.hashes.emplace_back(100 * prompt + i + 1);
    const std::vector<kv::KvEvent> events{event};
    ASSERT_EQ(router_.on_kv_events(known.place, events), 0U);
  }

  void poll() {
    const auto changes = places_.poll([this](WorkerId worker) { return dispatcher_.uses(worker); }, now_);
    for (const WorkerId worker : changes.leave) turn_out(std::string(places_.name_at(worker, now_)));
    for (const WorkerId worker : changes.clear) clearing_.insert(std::string(places_.name_at(worker, now_)));
    if (below(2) == 0) leave_one();
    (void)dispatcher_.check(now_);
    // Other threads take their time to forget.
    if (clearing_.empty() || below(4) != 0) return;
    const std::string name = *clearing_.begin();
    clearing_.erase(clearing_.begin());
    const WorkerId place = known_.at(name).place;
    router_.event_index().forget(place);
    dispatcher_.forget(place);
    places_.vacate(place, now_);
    leaving_.erase(name);
    known_.erase(name);
  }

  void check() {
    EXPECT_EQ(places_.vacant(), kPlaces - known_.size());
    std::set<WorkerId> taken;
    for (const auto& [name, known] : known_) {
      taken.insert(known.place);
      const auto& counters = dispatcher_.counters();
      EXPECT_EQ(places_.find(name), known.place);
      EXPECT_EQ(places_.place(known.place).state, known.state) << name;
      EXPECT_EQ(counters.by_worker[known.place.value()].of(Outcome::kCompleted), known.completed) << name;
      std::uint64_t failed = 0;
      for (const std::uint64_t failures : counters.failures[known.place.value()]) failed += failures;
      EXPECT_EQ(failed, known.failed) << name;
      if (failed == 0) {
        EXPECT_EQ(dispatcher_.outliers().worker(known.place).failures_in_a_row, 0U) << name;
      }
      EXPECT_EQ(router_.index().worker_blocks(known.place), kPromptBlocks * known.stored.size()) << name;
    }
    for (std::uint32_t i = 0; i < kPlaces; ++i) {
      EXPECT_EQ(fleet_.is_vacant(WorkerId(i)), !taken.contains(WorkerId(i)));
      EXPECT_FALSE(fleet_.is_vacant(WorkerId(i)) && fleet_.views()[i].available);
    }
  }

  RandomStream random_;
  TimePoint now_{std::chrono::seconds(1)};
  WorkerPlaces places_{kPlaces};
  Fleet fleet_{{}, {}, kPlaces};
  routing::Router router_;
  Dispatcher dispatcher_{{.max_in_flight = 20, .max_retries = 3}, fleet_, router_};
  std::map<std::string, Known> known_;
  std::set<std::string> leaving_, clearing_;
  std::vector<Live> live_;
  std::vector<routing::RequestHandle> gone_;
  std::size_t added_ = 0;
  int moved_ = 0, completed_ = 0;
};

TEST(ChangingFleet, CreditsNothingOfARemovedWorkerToTheNextInItsPlace) {
  const std::uint64_t seed = test_seed();
  std::printf("seed %llu (KVIST_TEST_SEED sets it)\n", static_cast<unsigned long long>(seed));
  for (const spec::RoutingMode mode : {spec::RoutingMode::kKv, spec::RoutingMode::kRoundRobin,
                                       spec::RoutingMode::kSession, spec::RoutingMode::kDynamo}) {
    for (std::uint64_t round = 0; round < 3; ++round) {
      SCOPED_TRACE("mode " + std::string(to_string(mode)) + ", round " + std::to_string(round));
      ChangingFleet(mix_seed({seed, round}), mode).run();
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace kvist::dispatch::changing_fleet_test
