#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <span>
#include <zmq.hpp>

#include "kvist/kv/block_hash.h"
#include "kvist/kv/kv_event_codec.h"
#include "kvist/net/zmq_receiver.h"
#include "kvist/text/chat.h"
#include "running_worker.h"

namespace kvist::worker::kv_events_test {
namespace {

// A subscriber that requests a replay from the start and rebuilds the findable blocks from it.
class BlockView {
 public:
  explicit BlockView(const Service& service) {
    net::ZmqSubscriberOptions options;
    options.endpoint = fmt::format("tcp://127.0.0.1:{}", service.kv_events_port());
    options.replay_endpoint = fmt::format("tcp://127.0.0.1:{}", service.kv_replay_port());
    net::ZmqSubscriberHandlers handlers;
    handlers.on_connected = [] {};
    handlers.on_live = [](std::uint64_t, std::string) {};
    handlers.on_replayed = [this](std::uint64_t sequence, std::string payload) { apply(sequence, payload); };
    handlers.on_replay_end = [this] {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    };
    handlers.on_malformed = [](std::string what) { ADD_FAILURE() << what; };
    auto receiver = net::ZmqReceiver::create();
    auto made = receiver->subscribe(std::move(options), std::move(handlers));
    if (!made) throw std::runtime_error(made.error().message);
    subscriber_ = std::move(*made);
  }

  // Blocks by hash with their copies, after a replay of all batches.
  std::map<std::uint64_t, int> rebuild() {
    std::unique_lock lock(mutex_);
    copies_.clear();
    expected_ = 0;
    ended_ = false;
    lock.unlock();
    subscriber_->request_replay(0);
    lock.lock();
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(100), [this] { return ended_; }));
    return copies_;
  }
  [[nodiscard]] std::uint64_t batches() const { return expected_; }

 private:
  void apply(std::uint64_t sequence, const std::string& payload) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(payload.data());
    const auto decoded = kv::decode_kv_events(std::span(bytes, payload.size()));
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(decoded->skipped_events, 0U) << decoded->first_problem;
    EXPECT_GT(decoded->batch.timestamp_s, 1.6e9);
    EXPECT_FALSE(decoded->batch.events.empty());
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(sequence, expected_++);
    for (const kv::KvEvent& event : decoded->batch.events) std::visit([this](const auto& e) { apply_event(e); }, event);
  }
  void apply_event(const kv::BlockStored& stored) {
    EXPECT_EQ(stored.block_size, 16U);
    EXPECT_EQ(stored.tokens.size(), stored.hashes.size() * 16);
    if (stored.parent) {
      EXPECT_TRUE(copies_.contains(stored.parent->value()));
    }
    for (const kv::ExternalHash hash : stored.hashes) ++copies_[hash.value()];
  }
  void apply_event(const kv::BlockRemoved& removed) {
    for (const kv::ExternalHash hash : removed.hashes) {
      if (--copies_[hash.value()] == 0) copies_.erase(hash.value());
    }
  }
  void apply_event(const kv::AllBlocksCleared& /*cleared*/) { copies_.clear(); }

  std::unique_ptr<net::ZmqSubscriber> subscriber_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, int> copies_;
  std::uint64_t expected_ = 0;
  bool ended_ = false;
};

// Hashes of the blocks that a finished chat leaves behind: all tokens but the last were computed.
std::vector<kv::BlockHash> blocks_of(const std::string& content, const openai::ChunkView& answer) {
  const tokenizer::ByteTokenizer tokenizer;
  std::vector<TokenId> tokens = text::SimpleChatTemplate().render({{"user", content}}, tokenizer);
  tokenizer.encode(answer.content, tokens);
  if (answer.finish_reason == "length") tokens.pop_back();  // else the end-of-turn token was the last
  return kv::hash_blocks(kv::root_hash({.model = "test-model", .lora = "", .cache_salt = ""}), tokens, 16);
}

TEST(KvEvents, ASubscriberRebuildsTheFindableBlocks) {
  RunningWorker worker;
  BlockView view(worker.service());
  EXPECT_TRUE(view.rebuild().empty());
  std::map<std::uint64_t, int> expected;
  for (const std::string& content : {std::string(100, 'x'), std::string(100, 'y'), std::string(100, 'x') + "z"}) {
    const auto answer = openai::parse_chunk(worker.post("/v1/chat/completions", chat_body(content)).body);
    ASSERT_TRUE(answer);
    for (const kv::BlockHash block : blocks_of(content, *answer)) expected[block.value()] = 1;
    EXPECT_EQ(view.rebuild(), expected);
  }
  EXPECT_GT(expected.size(), 20U);
  EXPECT_EQ(worker.metric("kvist_worker_kv_event_batches_total"), static_cast<double>(view.batches()));
  EXPECT_EQ(worker.post("/reset_prefix_cache", "").status, 200);
  EXPECT_TRUE(view.rebuild().empty());
}

// The topic of the first batch that a worker publishes, as a replay gives it: ["", topic, number, payload].
std::string topic_of_events(const spec::WorkerSpec& spec) {
  RunningWorker worker(spec);
  EXPECT_EQ(worker.post("/v1/chat/completions", chat_body(std::string(100, 'x'))).status, 200);
  zmq::context_t context;
  zmq::socket_t dealer(context, zmq::socket_type::dealer);
  dealer.set(zmq::sockopt::rcvtimeo, 100'000);
  dealer.connect(fmt::format("tcp://127.0.0.1:{}", worker.service().kv_replay_port()));
  dealer.send(zmq::message_t(), zmq::send_flags::sndmore);
  dealer.send(zmq::buffer(std::string(8, '\0')), zmq::send_flags::none);
  std::vector<std::string> frames;
  zmq::message_t frame;
  do {
    if (!dealer.recv(frame)) return "no answer";
    frames.push_back(frame.to_string());
  } while (frame.more());
  return frames.size() == 4 ? frames[1] : fmt::format("{} frames", frames.size());
}

TEST(KvEvents, TheirTopicIsEmptyUnlessTheSettingsNameOne) {
  EXPECT_EQ(topic_of_events(fast_spec()), "");
  spec::WorkerSpec spec = fast_spec();
  spec.kv_events_topic = "kv@10.0.0.1@test-model";
  EXPECT_EQ(topic_of_events(spec), "kv@10.0.0.1@test-model");
}

TEST(KvEvents, EvictionsArePublished) {
  spec::WorkerSpec spec = fast_spec();
  spec.kv_blocks = 24;
  RunningWorker worker(spec);
  BlockView view(worker.service());
  for (char c = 'a'; c < 'k'; ++c) {
    const std::string body = chat_body(std::string(150, c), R"("max_tokens":20)");
    ASSERT_EQ(worker.post("/v1/chat/completions", body).status, 200);
  }
  EXPECT_GT(worker.metric("kvist_worker_evicted_blocks_total"), 50);
  const std::map<std::uint64_t, int> blocks = view.rebuild();
  EXPECT_LE(blocks.size(), 24U);
  EXPECT_GT(blocks.size(), 10U);
  for (const auto& [name, copies] : blocks) EXPECT_EQ(copies, 1) << name;
}

}  // namespace
}  // namespace kvist::worker::kv_events_test
