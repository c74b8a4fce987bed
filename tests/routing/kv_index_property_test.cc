// The index against a model so simple that it is right by reading: random histories of several workers.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "kvist/base/random.h"
#include "kvist/routing/kv_index.h"

namespace kvist::routing {
namespace {

constexpr std::uint32_t kBlockSize = 2;
constexpr std::uint32_t kWorkers = 5;
const std::string kModel = "model";

using Prefix = std::vector<std::uint32_t>;  // one small number per block stands for its content

std::vector<TokenId> tokens_of(const Prefix& prefix, std::size_t from = 0) {
  std::vector<TokenId> result;
  for (std::size_t i = from; i < prefix.size(); ++i) {
    for (std::uint32_t t = 0; t < kBlockSize; ++t) result.emplace_back(prefix[i] * kBlockSize + t);
  }
  return result;
}

// One worker: its prefixes with their numbers of copies, and the names it gives them.
struct NaiveWorker {
  std::map<Prefix, std::uint32_t> copies;
  std::map<Prefix, std::uint64_t> names;

  kv::ExternalHash name(const Prefix& prefix, RandomStream& random) {
    const auto [entry, is_new] = names.try_emplace(prefix, 0);
    if (is_new) entry->second = random.next();
    return kv::ExternalHash(entry->second);
  }

  [[nodiscard]] std::uint32_t depth(const Prefix& prompt) const {
    std::uint32_t held = 0;
    for (Prefix prefix; held < prompt.size(); ++held) {
      prefix.push_back(prompt[held]);
      if (!copies.contains(prefix)) break;
    }
    return held;
  }
};

class History {
 public:
  explicit History(std::uint64_t seed) : random_(seed) {}

  void step() {
    const auto worker = static_cast<std::uint32_t>(random_.uniform_int(0, kWorkers - 1));
    const auto what = random_.uniform_int(0, 99);
    if (what < 55) {
      store(worker);
    } else if (what < 98) {
      remove(worker);
    } else {
      naive_[worker].copies.clear();
      EXPECT_FALSE(index_.apply(WorkerId(worker), kv::AllBlocksCleared{}));
    }
  }

  void remove_everything() {
    for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
      while (!naive_[worker].copies.empty()) remove(worker);
    }
  }

  void compare() {
    const Prefix prompt = random_prompt();
    std::vector<std::uint32_t> depths(kWorkers);
    index_.match(
        kv::hash_blocks(kv::root_hash({.model = kModel, .lora = "", .cache_salt = ""}), tokens_of(prompt), kBlockSize),
        depths);
    std::set<Prefix> distinct;
    for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
      ASSERT_EQ(depths[worker], naive_[worker].depth(prompt)) << "worker " << worker;
      ASSERT_EQ(index_.worker_blocks(WorkerId(worker)), naive_[worker].copies.size()) << "worker " << worker;
      for (const auto& [prefix, copies] : naive_[worker].copies) distinct.insert(prefix);
    }
    ASSERT_EQ(index_.keys(), distinct.size());
  }

  [[nodiscard]] const KvIndex& index() const { return index_; }

 private:
  Prefix random_prompt() {
    Prefix prompt(static_cast<std::size_t>(random_.uniform_int(1, 6)));
    for (auto& block : prompt) block = static_cast<std::uint32_t>(random_.uniform_int(0, 2));
    return prompt;
  }

  // As an engine does it: the new part of a prompt behind a block that the worker still has.
  void store(std::uint32_t worker) {
    NaiveWorker& naive = naive_[worker];
    const Prefix prompt = random_prompt();
    // Sometimes from the beginning again, although the worker has it: further copies.
    const std::uint32_t held = naive.depth(prompt);
    const auto from =
        random_.uniform_int(0, 3) == 0 ? 0U : std::min<std::uint32_t>(held, static_cast<std::uint32_t>(prompt.size()));
    if (from == prompt.size()) return;
    kv::BlockStored event;
    event.block_size = kBlockSize;
    event.tokens = tokens_of(prompt, from);
    const auto end = [&](std::size_t blocks) {
      return Prefix(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(blocks));
    };
    if (from > 0) event.parent = naive.name(end(from), random_);
    for (std::size_t blocks = from + 1; blocks <= prompt.size(); ++blocks) {
      event.hashes.push_back(naive.name(end(blocks), random_));
      ++naive.copies[end(blocks)];
    }
    EXPECT_FALSE(index_.apply(WorkerId(worker), event));
  }

  void remove(std::uint32_t worker) {
    NaiveWorker& naive = naive_[worker];
    if (naive.copies.empty()) return;
    auto victim = naive.copies.begin();
    std::advance(victim, random_.uniform_int(0, static_cast<std::int64_t>(naive.copies.size()) - 1));
    kv::BlockRemoved event;
    event.hashes.push_back(naive.name(victim->first, random_));
    if (--victim->second == 0) naive.copies.erase(victim);
    EXPECT_FALSE(index_.apply(WorkerId(worker), event));
  }

  RandomStream random_;
  KvIndex index_{{.model = kModel, .block_size = kBlockSize}};
  NaiveWorker naive_[kWorkers];
};

TEST(KvIndexProperty, EqualsANaiveModelOverRandomHistories) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    History history(seed);
    for (int i = 0; i < 400; ++i) {
      history.step();
      ASSERT_NO_FATAL_FAILURE(history.compare());
    }
    history.remove_everything();
    ASSERT_NO_FATAL_FAILURE(history.compare());
    ASSERT_EQ(history.index().keys(), 0U) << "keys stay behind when every block is removed";
  }
}

}  // namespace
}  // namespace kvist::routing
