// What a gateway knows of a worker's cache, against the cache itself: a gateway that comes late, a replay buffer that
// is too short, lost messages, clears and restarts. The index never claims more than the worker holds, and is exact
// from a clear on.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "event_feed.h"
#include "kvist/base/random.h"
#include "kvist/kv/event_sequencer.h"
#include "kvist/kv/kv_event_codec.h"
#include "kvist/routing/cache_knowledge.h"

namespace kvist::routing::cache_knowledge_property_test {
namespace {

constexpr std::uint32_t kBlockSize = 4;
constexpr std::size_t kCapacity = 60;  // blocks
constexpr std::size_t kReplayBuffer = 12;
const WorkerId kWorker{0};

using Keys = std::vector<kv::BlockHash>;

struct Prompt {
  std::vector<TokenId> tokens;
  Keys keys;
};

/// A prefix cache like an engine's: the ends of prefixes are evicted first, the least recently used before others.
class Engine {
 public:
  explicit Engine(RandomStream& random) : random_(&random) {}

  [[nodiscard]] std::size_t depth(const Keys& keys) const {
    std::size_t depth = 0;
    while (depth < keys.size() && blocks_.contains(keys[depth])) ++depth;
    return depth;
  }
  [[nodiscard]] std::size_t size() const { return blocks_.size(); }

  /// Computes a prompt; what it took from the cache, in blocks.
  std::size_t run(const Prompt& prompt, std::vector<kv::KvEvent>& events) {
    const std::size_t cached = depth(prompt.keys);
    for (std::size_t i = 0; i < cached; ++i) blocks_.at(prompt.keys[i]).used = ++clock_;
    const std::size_t blocks = prompt.keys.size();
    kv::BlockRemoved removed;
    while (blocks_.size() + (blocks - cached) > kCapacity && evict_one(prompt.keys, removed)) {
    }
    if (!removed.hashes.empty()) events.emplace_back(removed);
    if (cached == blocks) return cached;
    kv::BlockStored stored;
    stored.block_size = kBlockSize;
    if (cached > 0) stored.parent = blocks_.at(prompt.keys[cached - 1]).name;
    stored.tokens.assign(prompt.tokens.begin() + static_cast<std::ptrdiff_t>(cached * kBlockSize),
                         prompt.tokens.begin() + static_cast<std::ptrdiff_t>(blocks * kBlockSize));
    for (std::size_t i = cached; i < blocks; ++i) {
      const kv::ExternalHash name(random_->next());
      blocks_[prompt.keys[i]] = {
          .name = name, .parent = i == 0 ? kv::BlockHash() : prompt.keys[i - 1], .used = ++clock_};
      stored.hashes.push_back(name);
    }
    events.emplace_back(stored);
    return cached;
  }
  void clear() { blocks_.clear(); }

 private:
  struct Block {
    kv::ExternalHash name;
    kv::BlockHash parent;
    std::uint64_t used = 0;
  };
  bool evict_one(const Keys& in_use, kv::BlockRemoved& removed) {
    auto oldest = blocks_.end();
    for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
      const bool is_parent =
          std::ranges::any_of(blocks_, [&](const auto& b) { return b.second.parent == block->first; });
      if (is_parent || std::ranges::find(in_use, block->first) != in_use.end()) continue;
      if (oldest == blocks_.end() || block->second.used < oldest->second.used) oldest = block;
    }
    if (oldest == blocks_.end()) return false;
    removed.hashes.push_back(oldest->second.name);
    blocks_.erase(oldest);
    return true;
  }

  RandomStream* random_;
  std::map<kv::BlockHash, Block> blocks_;
  std::uint64_t clock_ = 0;
};

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed), engine_(random_) {
    for (int i = 0; i < 40; ++i) prompts_.push_back(make_prompt());
  }

  /// The worker serves other clients before the gateway starts.
  void alone() { request(false); }
  void connect() {
    connected_ = true;
    act(sequencer_.on_connected(now_));
  }
  void tick() {
    now_ += std::chrono::milliseconds(700);
    act(sequencer_.poll(now_));
    const double what = random_.uniform();
    if (what < 0.02) {
      restart();
    } else if (what < 0.04) {
      clear();
    } else {
      request(random_.uniform() < 0.6);
    }
  }
  void request(bool through_gateway) {
    const auto which = static_cast<std::size_t>(random_.uniform_int(0, static_cast<std::int64_t>(prompts_.size()) - 1));
    const Prompt& prompt = prompts_[which];
    RequestHandle routed;
    if (through_gateway && connected_) {
      knowledge_.match(prompt.keys, fleet_, in_flight_, true, now_, depths_);
      routed = requests_.insert({.id = RequestId(++last_request_),
                                 .worker = kWorker,
                                 .prompt_tokens = static_cast<std::uint32_t>(prompt.tokens.size()),
                                 .blocks = std::make_shared<const Keys>(prompt.keys)});
      knowledge_.on_routed(*requests_.find(routed), 0, now_);
    }
    std::vector<kv::KvEvent> events;
    const std::size_t cached = engine_.run(prompt, events);
    if (!events.empty()) publish(events, random_.uniform() < 0.05);
    RoutedRequest* const request = requests_.find(routed);
    if (request == nullptr) return;
    knowledge_.on_usage(*request, cached * kBlockSize);
    knowledge_.on_finished(*request, true, 1, now_);
    requests_.erase(routed);
  }

  void clear() {
    engine_.clear();
    publish({kv::AllBlocksCleared{}}, false);
  }

  /// The gateway has everything that was published, or knows that it has not.
  [[nodiscard]] bool up_to_date() const { return last_arrived_; }
  [[nodiscard]] bool whole() const { return sequencer_.whole(); }

  void expect_no_claim_too_many() const {
    std::vector<std::uint32_t> depths(1);
    for (const Prompt& prompt : prompts_) {
      knowledge_.index().match(prompt.keys, depths);
      ASSERT_LE(depths[0], engine_.depth(prompt.keys)) << "adoptions: " << adoptions_ << ", whole: " << whole();
    }
  }
  void expect_exact() const {
    std::vector<std::uint32_t> depths(1);
    for (const Prompt& prompt : prompts_) {
      knowledge_.index().match(prompt.keys, depths);
      ASSERT_EQ(depths[0], engine_.depth(prompt.keys));
    }
    ASSERT_EQ(knowledge_.index().worker_blocks(kWorker), engine_.size());
  }
  [[nodiscard]] std::uint64_t adoptions() const { return adoptions_; }

 private:
  // Paths in a tree with few branches: prompts share prefixes of all lengths.
  Prompt make_prompt() {
    Prompt prompt;
    const std::int64_t blocks = random_.uniform_int(1, 14);
    for (std::int64_t i = 0; i < blocks; ++i) {
      const std::int64_t branch = random_.uniform() < 0.8 ? 0 : random_.uniform_int(1, 2);
      for (std::uint32_t t = 0; t < kBlockSize; ++t)
        prompt.tokens.emplace_back(static_cast<std::uint32_t>(i * 100 + branch * 10) + t);
    }
    prompt.keys =
        kv::hash_blocks(kv::root_hash({.model = "m", .lora = "", .cache_salt = ""}), prompt.tokens, kBlockSize);
    prompt.tokens.emplace_back(9);
    return prompt;
  }

  void restart() {
    engine_.clear();
    buffer_.clear();
    next_ = 0;
    ++run_;
    last_arrived_ = false;  // while a rebuild is due, only the new run's first event tells of it
    act(sequencer_.on_connected(now_));
  }

  void publish(std::vector<kv::KvEvent> events, bool lost) {
    const std::string payload = kv::encode_kv_events({.timestamp_s = run_ * 1e6 + static_cast<double>(next_),
                                                      .events = std::move(events),
                                                      .data_parallel_rank = {}});
    buffer_.emplace_back(next_, payload);
    if (buffer_.size() > kReplayBuffer) buffer_.pop_front();
    const std::uint64_t sequence = next_++;
    last_arrived_ = connected_ && !lost;
    if (last_arrived_) act(sequencer_.on_live(sequence, payload, now_));
  }

  void act(std::vector<kv::SequencerAction> actions) {
    if (sequencer_.counters().restarts != restarts_) {
      restarts_ = sequencer_.counters().restarts;
      knowledge_.on_restarted(kWorker);
    }
    for (const kv::SequencerAction& action : actions) {
      if (const auto* const batch = std::get_if<kv::ApplyPayload>(&action)) apply(*batch);
      if (std::holds_alternative<kv::ResetWorker>(action)) reset_events(knowledge_, kWorker);
      if (const auto* const replay = std::get_if<kv::RequestReplay>(&action)) answer(replay->from);
    }
  }
  void apply(const kv::ApplyPayload& batch) {
    const auto decoded =
        kv::decode_kv_events({reinterpret_cast<const std::uint8_t*>(batch.payload.data()), batch.payload.size()});
    ASSERT_TRUE(decoded.has_value());
    const std::uint64_t before = knowledge_.report(kWorker, false).adopted_prefixes;
    feed(knowledge_, kWorker, decoded->batch.events);
    if (knowledge_.report(kWorker, false).adopted_prefixes > before) ++adoptions_;
    for (const kv::KvEvent& event : decoded->batch.events) {
      if (std::holds_alternative<kv::AllBlocksCleared>(event)) sequencer_.on_cleared(batch.view);
    }
  }
  void answer(std::uint64_t from) {
    const auto frames = buffer_;
    for (const auto& [sequence, payload] : frames) {
      if (sequence >= from) act(sequencer_.on_replayed(sequence, payload, now_));
    }
    act(sequencer_.on_replay_end(now_));
  }

  RandomStream random_;
  Engine engine_;
  std::vector<Prompt> prompts_;
  kv::EventSequencer sequencer_{kv::EventSequencer::Options{}};
  RoutedRequests requests_;
  CacheKnowledge knowledge_{{.model = "m", .block_size = kBlockSize, .workers = 1}, requests_};
  std::vector<WorkerView> fleet_{1, WorkerView{.available = true, .events_exact = false, .limits = {}}};
  std::vector<std::uint32_t> in_flight_{0};
  CacheDepths depths_{1};
  TimePoint now_{std::chrono::seconds(1)};
  std::deque<std::pair<std::uint64_t, std::string>> buffer_;
  std::uint64_t next_ = 0;
  int run_ = 0;
  bool connected_ = false;
  bool last_arrived_ = false;
  std::uint64_t restarts_ = 0;
  std::uint64_t last_request_ = 0;
  std::uint64_t adoptions_ = 0;
};

class CacheKnowledgeProperty : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(CacheKnowledgeProperty, NeverClaimsMoreThanThereIsAndIsExactFromAClearOn) {
  SCOPED_TRACE("seed " + std::to_string(GetParam()));
  World world(GetParam());
  for (int i = 0; i < 100; ++i) world.alone();
  world.connect();
  std::size_t whole = 0;
  for (int i = 0; i < 600; ++i) {
    world.tick();
    if (!world.up_to_date()) continue;
    ASSERT_NO_FATAL_FAILURE(world.expect_no_claim_too_many()) << "tick " << i;
    if (!world.whole()) continue;
    ++whole;
    ASSERT_NO_FATAL_FAILURE(world.expect_exact()) << "tick " << i;
  }
  world.clear();
  EXPECT_TRUE(world.whole());
  ASSERT_NO_FATAL_FAILURE(world.expect_exact());
  EXPECT_GT(whole, 0U);
}

TEST(CacheKnowledge, ALateGatewayLearnsMostOfAWorkerWhoseEventsItMissed) {
  World world(3);
  for (int i = 0; i < 100; ++i) world.alone();
  world.connect();
  for (int i = 0; i < 20; ++i) world.request(true);
  EXPECT_FALSE(world.whole());
  EXPECT_GT(world.adoptions(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, CacheKnowledgeProperty, ::testing::Range<std::uint64_t>(1, 21));

}  // namespace
}  // namespace kvist::routing::cache_knowledge_property_test
