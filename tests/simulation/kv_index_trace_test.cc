// Compares the index, fed by engines that replay a trace, with the engines' actual caches.
#include <gtest/gtest.h>

#include "../../benchmarks/trace_replay.h"
#include "kvist/kv_index/kv_index.h"
#include "kvist/workload/trace_file.h"

namespace kvist::kv_index::kv_index_trace_test {
namespace {

// The leading blocks of a prompt that an engine's cache holds, by the engine's own hashes.
std::uint32_t held(const replay::ReplayEngine& engine, std::span<const TokenId> tokens, std::uint32_t block_size) {
  std::uint32_t blocks = 0;
  for (const kv::BlockHash name : kv::hash_blocks(engine.root(), tokens, block_size)) {
    if (!engine.pool().find(name)) break;
    ++blocks;
  }
  return blocks;
}

void run(const replay::ReplayOptions& options) {
  SCOPED_TRACE(std::to_string(options.workers) + " workers");
  const auto trace = workload::load_trace(KVIST_SOURCE_DIR "/examples/traces/chat.jsonl");
  ASSERT_TRUE(trace) << trace.error().message;
  replay::TraceReplay replay(*trace, options);
  KvIndex index({.model = options.model, .block_size = options.block_size});
  std::size_t found = 0;
  while (!replay.done()) {
    const std::vector<TokenId> prompt = replay.next_prompt();
    std::vector<WorkerMatch> expected;
    for (std::uint32_t worker = 0; worker < options.workers; ++worker) {
      const std::uint32_t blocks = held(replay.engine(worker), prompt, options.block_size);
      if (blocks > 0) expected.push_back({.worker = WorkerId(worker), .blocks = blocks});
    }
    found += expected.size();
    const replay::ReplayedRequest request = replay.next();
    const auto matches = index.match(request.keys);
    ASSERT_EQ(std::vector(matches.begin(), matches.end()), expected);
    for (const replay::EventBatch& batch : request.batches) {
      ASSERT_EQ(index.apply(WorkerId(batch.worker), batch.events), 0U);
    }
  }
  EXPECT_GT(found, trace->requests.size() / 2) << "the trace shares hardly anything: this proved little";
  std::uint64_t removed = 0;
  for (std::uint32_t worker = 0; worker < options.workers; ++worker) {
    EXPECT_EQ(index.worker_blocks(WorkerId(worker)), replay.engine(worker).pool().findable().size());
    EXPECT_EQ(index.counters(WorkerId(worker)).unknown_removals, 0U);
    removed += index.counters(WorkerId(worker)).removed_blocks;
  }
  EXPECT_GT(removed, 0U) << "the engines never ran full: this proved little";
}

TEST(KvIndexTrace, AnswersWhatTheEnginesReallyHave) {
  run({.workers = 1, .blocks_per_worker = 2'000});
  run({.workers = 4, .blocks_per_worker = 500});
  run({.workers = 70, .blocks_per_worker = 120});
}

}  // namespace
}  // namespace kvist::kv_index::kv_index_trace_test
