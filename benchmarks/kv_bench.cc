// bench: kv
// Block hashing, the block pool at full turnover, and the event codec.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <span>
#include <vector>

#include "kvist/kv/block_hash.h"
#include "kvist/kv/block_pool.h"
#include "kvist/kv/kv_event_codec.h"

namespace {

using kvist::TokenId;
using kvist::kv::BlockHash;
using kvist::kv::BlockId;
using kvist::kv::BlockPool;

constexpr std::uint32_t kBlockSize = 32;

std::vector<TokenId> tokens(std::uint32_t count) {
  std::vector<TokenId> out;
  for (std::uint32_t i = 0; i < count; ++i) out.emplace_back(i * 7919U % 128'000U);
  return out;
}

void hash_prompt(benchmark::State& state) {
  const auto prompt = tokens(4096);
  const BlockHash root = kvist::kv::root_hash({"model", "", ""});
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(kvist::kv::hash_blocks(root, prompt, kBlockSize));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(prompt.size() * sizeof(TokenId)));
}
BENCHMARK(hash_prompt)->Name("kv/hash_blocks_of_4096_tokens");

void pool_turnover(benchmark::State& state) {
  // Every allocation evicts a findable block, as under a working set larger than the memory.
  BlockPool pool(20'000, kBlockSize);
  const auto block_tokens = tokens(kBlockSize);
  std::uint64_t number = 1;
  const auto cycle = [&] {
    const BlockId block = *pool.allocate();
    const BlockHash hash(number++ * 0x9E3779B97F4A7C15U);
    pool.commit({&block, 1}, {&hash, 1}, std::nullopt, block_tokens);
    pool.release(block);
  };
  for (int i = 0; i < 20'000; ++i) cycle();
  benchmark::DoNotOptimize(pool.take_events());
  for ([[maybe_unused]] auto _ : state) {
    cycle();
    if (number % 64 == 0) benchmark::DoNotOptimize(pool.take_events());
  }
}
BENCHMARK(pool_turnover)->Name("kv/allocate_commit_release_with_eviction");

/// The prefix of a prompt of 6,000 tokens in one of three full pools of an H200, as three workers of a simulation have
/// them: one search per block, or all at once.
template <bool kAtOnce>
void find_prefix(benchmark::State& state) {
  constexpr std::uint32_t kBlocks = 11'500;
  constexpr std::uint32_t kPrefix = 187;
  std::vector<BlockPool> pools;
  std::vector<std::vector<BlockHash>> hashes(3);
  const auto block_tokens = tokens(kBlockSize);
  for (std::uint64_t p = 0; p < hashes.size(); ++p) {
    pools.emplace_back(kBlocks, kBlockSize);
    for (std::uint64_t i = 0; i < kBlocks; ++i) {
      const BlockId block = *pools[p].allocate();
      hashes[p].emplace_back((p * kBlocks + i + 1) * 0x9E3779B97F4A7C15U * 0x9E3779B97F4A7C15U);
      pools[p].commit({&block, 1}, {&hashes[p].back(), 1}, std::nullopt, block_tokens);
    }
    benchmark::DoNotOptimize(pools[p].take_events());
  }
  std::vector<BlockId> found;
  std::size_t at = 0;
  for ([[maybe_unused]] auto _ : state) {
    const std::size_t p = at++ % 3;
    const auto prompt = std::span(hashes[p]).subspan(at * 7919 % (kBlocks - kPrefix), kPrefix);
    if constexpr (kAtOnce) {
      pools[p].find_prefix(prompt, found);
    } else {
      found.clear();
      for (const BlockHash hash : prompt) found.push_back(*pools[p].find(hash));
    }
    benchmark::DoNotOptimize(found.data());
  }
  state.SetItemsProcessed(state.iterations() * kPrefix);
}
BENCHMARK(find_prefix<false>)->Name("kv/find_each_of_187_blocks");
BENCHMARK(find_prefix<true>)->Name("kv/find_prefix_of_187_blocks");

void event_codec(benchmark::State& state) {
  kvist::kv::BlockStored stored;
  stored.tokens = tokens(64 * kBlockSize);
  stored.block_size = kBlockSize;
  for (std::uint64_t i = 0; i < 64; ++i) stored.hashes.emplace_back(i * 0x9E3779B97F4A7C15U);
  const kvist::kv::KvEventBatch batch{1.0, {stored}, 0};
  for ([[maybe_unused]] auto _ : state) {
    const std::string payload = kvist::kv::encode_kv_events(batch);
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(payload.data());
    benchmark::DoNotOptimize(kvist::kv::decode_kv_events(std::span(bytes, payload.size())));
  }
  state.SetItemsProcessed(state.iterations() * 64);
}
BENCHMARK(event_codec)->Name("kv/encode_and_decode_event_of_64_blocks");

}  // namespace
