// Readers run next to the writer: every result was true at some moment during the call.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "kv_index/kv_index_model.h"

namespace kvist::kv_index::kv_index_reader_test {
namespace {

constexpr std::uint32_t kWorkers = 80;  // sets of more than a word

/// Prompts of which worker w may ever hold the first limit(prompt, w) blocks and no more.
class Prompts {
 public:
  static constexpr std::uint32_t kPrompts = 64;
  static constexpr std::uint32_t kBlocks = 24;

  Prompts() {
    for (std::uint32_t prompt = 0; prompt < kPrompts; ++prompt) {
      std::vector<TokenId> tokens;
      // Prompts share their first blocks with their neighbours.
      for (std::uint32_t i = 0; i < kBlocks * kModelBlockSize; ++i) {
        tokens.emplace_back(i < 8 ? (prompt / 4) * 10'000 + i : prompt * 10'000 + i);
      }
      keys_.push_back(
          kv::hash_blocks(kv::root_hash({.model = "model", .lora = "", .cache_salt = ""}), tokens, kModelBlockSize));
      tokens_.push_back(std::move(tokens));
    }
  }

  [[nodiscard]] static std::uint32_t limit(std::uint32_t prompt, std::uint32_t worker) {
    return static_cast<std::uint32_t>(
        mix_seed({prompt / 4, worker}) % 3 == 0 ? 0 : mix_seed({prompt / 4, worker}) % kBlocks);
  }
  [[nodiscard]] std::span<const kv::BlockHash> keys(std::uint32_t prompt) const { return keys_[prompt]; }
  // Names are the keys: other prompts with the same beginning use the same ones.
  [[nodiscard]] kv::BlockStored stored(std::uint32_t prompt, std::uint32_t blocks) const {
    kv::BlockStored event;
    event.block_size = kModelBlockSize;
    event.tokens.assign(tokens_[prompt].begin(), tokens_[prompt].begin() + blocks * kModelBlockSize);
    for (std::uint32_t i = 0; i < blocks; ++i) event.hashes.emplace_back(keys_[prompt][i].value());
    return event;
  }
  [[nodiscard]] kv::BlockRemoved removed(std::uint32_t prompt, std::uint32_t blocks) const {
    kv::BlockRemoved event;
    for (std::uint32_t i = blocks; i-- > 0;) event.hashes.emplace_back(keys_[prompt][i].value());
    return event;
  }

 private:
  std::vector<std::vector<TokenId>> tokens_;
  std::vector<std::vector<kv::BlockHash>> keys_;
};

/// Looks prompts up until told to stop; every answer must be one that could be true.
void read(const Prompts& prompts, KvIndex::Reader reader, std::uint64_t seed, const std::atomic<bool>& stop,
          std::atomic<std::uint64_t>& look_ups, std::atomic<std::uint64_t>& answers,
          std::atomic<std::uint64_t>& wrong) {
  RandomStream random(seed);
  for (; !stop.load(std::memory_order_relaxed); look_ups.fetch_add(1)) {
    const auto prompt = static_cast<std::uint32_t>(random.uniform_int(0, Prompts::kPrompts - 1));
    std::uint32_t last = 0;
    bool first = true;
    for (const WorkerMatch& match : reader.match(prompts.keys(prompt))) {
      const std::uint32_t worker = match.worker.value();
      const bool ascending = first || worker > last;
      if (!ascending || match.blocks == 0 || worker >= kWorkers || match.blocks > Prompts::limit(prompt, worker)) {
        wrong.fetch_add(1, std::memory_order_relaxed);
      }
      answers.fetch_add(1, std::memory_order_relaxed);
      last = worker;
      first = false;
    }
  }
}

void run(std::uint64_t seed, std::size_t max_bytes, std::uint64_t least_answers) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  const Prompts prompts;
  KvIndex index({.model = "model", .block_size = kModelBlockSize, .max_bytes = max_bytes});
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> answers = 0;
  std::atomic<std::uint64_t> wrong = 0;
  std::array<std::atomic<std::uint64_t>, 2> look_ups = {};
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < look_ups.size(); ++i) {
    threads.emplace_back([&, i, reader = index.make_reader()]() mutable {
      read(prompts, std::move(reader), i, stop, look_ups[i], answers, wrong);
    });
  }
  // A reader that is stopped within a look-up holds memory back, so that the sets of workers that removals make may
  // exceed the budget. Therefore no reader may fall behind by more than some steps, however busy the machine is.
  std::array<std::uint64_t, 2> seen = {};
  const auto wait_for_readers = [&] {
    for (std::size_t i = 0; i < seen.size(); ++i) {
      while (look_ups[i].load() == seen[i]) std::this_thread::yield();
      seen[i] = look_ups[i].load();
    }
  };
  RandomStream random(seed);
  std::uint32_t other = 1'000'000;
  std::size_t most_bytes = 0;
  const bool limited = max_bytes < std::size_t{1} << 30;
  // How many steps the readers need depends on the machine. In the end the blocks of no prompt fill any budget.
  const auto goes_on = [&](std::uint64_t step) {
    return step < 4'000 || answers.load() < least_answers || (limited && index.evictions() == 0);
  };
  for (std::uint64_t step = 0; goes_on(step); ++step) {
    if (limited && step % 64 == 0) wait_for_readers();
    const auto prompt = static_cast<std::uint32_t>(random.uniform_int(0, Prompts::kPrompts - 1));
    const auto worker = static_cast<std::uint32_t>(random.uniform_int(0, kWorkers - 1));
    const std::uint32_t blocks = Prompts::limit(prompt, worker);
    const std::int64_t what = random.uniform_int(0, 99);
    if (what < 2) {
      index.clear(WorkerId(worker));
    } else if (what < 40) {
      index.apply(WorkerId(worker), prompts.removed(prompt, blocks));
    } else if (what < 90) {
      index.apply(WorkerId(worker), prompts.stored(prompt, blocks));
    } else {
      // Blocks of no prompt: tables grow and shrink beside the readers.
      kv::BlockStored event;
      event.block_size = kModelBlockSize;
      for (std::uint32_t i = 0; i < 40; ++i, ++other) {
        event.hashes.emplace_back(other);
        for (std::uint32_t t = 0; t < kModelBlockSize; ++t) event.tokens.emplace_back(other * kModelBlockSize + t);
      }
      index.apply(WorkerId(worker), event);
    }
    most_bytes = std::max(most_bytes, index.bytes());
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most_bytes, max_bytes + (limited ? max_bytes / 4 : 0));
  EXPECT_EQ(index.evictions() > 0, limited);
  EXPECT_EQ(wrong.load(), 0U) << "of " << answers.load();
}

TEST(KvIndexReader, NeverNamesAWorkerForABlockThatItNeverHeld) {
  run(1, std::size_t{1} << 30, 20'000);
}

TEST(KvIndexReader, NorWhileBlocksAreEvicted) {
  run(2, 700'000, 20'000);
}

TEST(KvIndexReader, AlwaysFindsWhatIsHeldAllTheTime) {
  const Prompts prompts;
  KvIndex index({.model = "model", .block_size = kModelBlockSize});
  for (std::uint32_t prompt = 0; prompt < Prompts::kPrompts; ++prompt) {
    index.apply(WorkerId(0), prompts.stored(prompt, Prompts::kBlocks));
  }
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> answers = 0;
  std::atomic<std::uint64_t> missed = 0;
  std::thread reading([&, reader = index.make_reader()]() mutable {
    RandomStream random(1);
    while (!stop.load(std::memory_order_relaxed)) {
      const auto prompt = static_cast<std::uint32_t>(random.uniform_int(0, Prompts::kPrompts - 1));
      const auto matches = reader.match(prompts.keys(prompt));
      if (matches.empty() || matches.front() != WorkerMatch{WorkerId(0), Prompts::kBlocks}) missed.fetch_add(1);
      answers.fetch_add(1, std::memory_order_relaxed);
    }
  });
  // Meanwhile other blocks come and go, so tables grow and shrink and slots get other entries.
  std::uint32_t other = 1'000'000;
  std::vector<kv::BlockRemoved> held;
  RandomStream random(2);
  const auto goes_on = [&](int step) { return step < 3'000 || answers.load() < 5'000; };
  for (int step = 0; goes_on(step); ++step) {
    if (held.empty() || random.uniform() < (step / 500 % 2 == 0 ? 0.8 : 0.2)) {
      kv::BlockStored event;
      event.block_size = kModelBlockSize;
      for (std::uint32_t i = 0; i < 40; ++i, ++other) {
        event.hashes.emplace_back(other);
        for (std::uint32_t t = 0; t < kModelBlockSize; ++t) event.tokens.emplace_back(other * kModelBlockSize + t);
      }
      held.push_back({.hashes = event.hashes});
      index.apply(WorkerId(1), event);
    } else {
      index.apply(WorkerId(1), held.back());
      held.pop_back();
    }
  }
  stop = true;
  reading.join();
  EXPECT_EQ(missed.load(), 0U) << "of " << answers.load();
}

TEST(KvIndexReader, SeesWhatTheWriterDidBefore) {
  const Prompts prompts;
  KvIndex index({.model = "model", .block_size = kModelBlockSize});
  KvIndex::Reader reader = index.make_reader();
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
    EXPECT_FALSE(index.apply(WorkerId(worker), prompts.stored(0, 3 + worker % 5)));
  }
  std::vector<WorkerMatch> seen;
  std::thread([&] {
    const auto matches = reader.match(prompts.keys(0));
    seen.assign(matches.begin(), matches.end());
  }).join();
  const auto expected = index.match(prompts.keys(0));
  EXPECT_EQ(seen, std::vector(expected.begin(), expected.end()));
  EXPECT_EQ(seen.size(), kWorkers);
}

TEST(KvIndexReader, MemoryComesBackOnceReadersHaveMovedOn) {
  const Prompts prompts;
  KvIndex index({.model = "model", .block_size = kModelBlockSize});
  const std::size_t before = index.bytes();
  {
    KvIndex::Reader reader = index.make_reader();
    for (int round = 0; round < 50; ++round) {
      for (std::uint32_t prompt = 0; prompt < Prompts::kPrompts; ++prompt) {
        index.apply(WorkerId(prompt % 7), prompts.stored(prompt, Prompts::kBlocks));
        static_cast<void>(reader.match(prompts.keys(prompt)));
      }
      for (std::uint32_t worker = 0; worker < 7; ++worker) index.clear(WorkerId(worker));
    }
    EXPECT_EQ(index.keys(), 0U);
  }
  for (int i = 0; i < 300; ++i) {
    index.apply(WorkerId(0), prompts.stored(0, 1));
    index.apply(WorkerId(0), prompts.removed(0, 1));
  }
  EXPECT_LT(index.bytes(), before + 20'000);
}

}  // namespace
}  // namespace kvist::kv_index::kv_index_reader_test
