// bench: kv_index kv workload
// The KV index under a trace that runs through simulated engines: the cost of a block operation and of a look-up,
// beside the memory latency at that moment. Events and look-ups are made in advance; everything is applied before a
// clock is read (the index has no queue of its own).
//
// KVIST_INDEX_TRACE names another trace in Mooncake's JSONL format (docs/formats/trace.md); without it conversations
// are generated, as `kvist trace generate` does.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/base/random.h"
#include "kvist/kv_index/kv_index.h"
#include "kvist/workload/trace_file.h"
#include "kvist/workload/trace_generator.h"
#include "trace_replay.h"

namespace {

using namespace kvist;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kLookUpBlocks = 128;  // a prompt of 4,096 tokens
constexpr int kRounds = 9;                  // the fastest counts: other processes only slow a round down

double nanoseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::nano>(duration).count();
}

/// CPU time of this thread. Long loops are measured in it, so that other processes on the core do not count. Reading it
/// takes a system call, so single look-ups are timed with the Clock.
double thread_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

/// 20,000 conversations of two to six turns over 1,000 shared starters of some 4,000 tokens, or the user's trace.
const workload::Trace& trace() {
  static const workload::Trace kTrace = [] {
    const char* const file = std::getenv("KVIST_INDEX_TRACE");
    workload::TraceOptions options;
    options.conversations = 20'000;
    options.workload.turns_min = 2;
    options.workload.turns_max = 6;
    options.workload.starters = 1'000;
    auto made = file != nullptr ? workload::load_trace(file) : workload::generate_trace(options);
    KVIST_CHECK(made, made.error().message);
    return std::move(*made);
  }();
  return kTrace;
}

/// All that one run needs, made in advance.
struct Replay {
  std::vector<replay::ReplayedRequest> requests;
  std::size_t block_operations = 0;
  std::size_t stored_blocks = 0;
  double hash_ns = 0;  // per block operation, hashing token ids alone
};

constexpr std::size_t kAtOnce = 16;  // requests

/// Copies of the events, as if just written by a decoder that reuses its memory: the cost of reading prepared gigabytes
/// from distant memory, or from a fragmented heap, must not count as the index's.
class FreshEvents {
 public:
  std::span<const replay::EventBatch> copy(std::span<const replay::ReplayedRequest> requests) {
    std::size_t count = 0;
    for (const replay::ReplayedRequest& request : requests) {
      for (const replay::EventBatch& batch : request.batches) {
        if (count == batches_.size()) batches_.emplace_back();
        batches_[count].worker = batch.worker;
        batches_[count++].events = batch.events;
      }
    }
    return std::span(batches_).first(count);
  }

 private:
  std::vector<replay::EventBatch> batches_;
};

/// The cost of hashing alone, over the same token ids in the same order.
double hashing_ns(const Replay& replay) {
  std::uint64_t sum = 0;
  double hashing = 0;
  FreshEvents fresh;
  for (std::size_t from = 0; from < replay.requests.size(); from += kAtOnce) {
    const auto requests = std::span(replay.requests).subspan(from, std::min(kAtOnce, replay.requests.size() - from));
    const std::span<const replay::EventBatch> batches = fresh.copy(requests);
    const double begin = thread_ns();
    for (const replay::EventBatch& batch : batches) {
      for (const kv::KvEvent& event : batch.events) {
        const auto* const stored = std::get_if<kv::BlockStored>(&event);
        if (stored == nullptr) continue;
        kv::BlockHash key(sum);
        const std::span<const TokenId> tokens(stored->tokens);
        for (std::size_t at = 0; at < tokens.size(); at += stored->block_size) {
          key = kv::chain_hash(key, tokens.subspan(at, stored->block_size));
        }
        sum += key.value();
      }
    }
    hashing += thread_ns() - begin;
  }
  benchmark::DoNotOptimize(sum);
  return hashing / static_cast<double>(replay.block_operations);
}

void make_replay(std::uint32_t workers, Replay& made) {
  // With a thousand engines, each gets less memory, so that the trace fills it as it fills the others'.
  replay::TraceReplay source(trace(), {.workers = workers, .blocks_per_worker = workers > 128 ? 1'500U : 11'500U});
  while (!source.done()) {
    made.requests.push_back(source.next());
    replay::ReplayedRequest& request = made.requests.back();
    if (request.keys.size() > kLookUpBlocks) request.keys.resize(kLookUpBlocks);
    for (const replay::EventBatch& batch : request.batches)
      made.block_operations += replay::block_operations(batch.events);
  }
}

const Replay& replay_of(std::uint32_t workers) {
  // Only one is kept: the events of one take most of a gigabyte.
  static std::uint32_t made_for = 0;
  static std::unique_ptr<Replay> made;
  if (made_for == workers) return *made;
  made.reset();
  made = std::make_unique<Replay>();
  made_for = workers;
  // Made by another thread, which has its own heap: a gateway's heap has no gigabytes of old events between those that
  // it reads.
  std::thread([workers] { make_replay(workers, *made); }).join();
  made->hash_ns = hashing_ns(*made);
  for (int round = 1; round < kRounds; ++round) made->hash_ns = std::min(made->hash_ns, hashing_ns(*made));
  return *made;
}

/// A random memory access, in ns: one whose address depends on the previous access, and an independent one.
struct Access {
  double dependent_ns = 0;
  double independent_ns = 0;
};

/// The same loops as in probe_bench.cc, over pages of the usual kind. The table is the same for all rows, far larger
/// than the last-level cache and the reach of the TLB: with a table as small as a small index, cache accesses would be
/// measured. Independent accesses run for about as long as a round of updates: a shorter probe would find more
/// favourable moments.
class Probe {
 public:
  static constexpr std::size_t kBytes = std::size_t{512} << 20;

  Probe() : next_(kBytes / sizeof(std::uint64_t)) {
    std::iota(next_.begin(), next_.end(), 0U);
    RandomStream random(1);
    for (std::size_t i = next_.size() - 1; i > 0; --i) std::swap(next_[i], next_[random.next() % i]);
  }

  /// Continues where it stopped, so that the cache content of one round does not help the next.
  [[nodiscard]] Access measure() {
    constexpr std::size_t kDependent = 1'000'000;
    constexpr std::size_t kIndependent = 20'000'000;
    const double begin = thread_ns();
    for (std::size_t i = 0; i < kDependent; ++i) benchmark::DoNotOptimize(at_ = next_[at_]);
    const double between = thread_ns();
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < kIndependent; ++i) {
      key_ = key_ * 6364136223846793005U + 1442695040888963407U;
      benchmark::DoNotOptimize(sum += next_[(key_ >> 32) % next_.size()]);
    }
    const double end = thread_ns();
    return {.dependent_ns = (between - begin) / kDependent, .independent_ns = (end - between) / kIndependent};
  }

 private:
  std::vector<std::uint64_t> next_;
  std::uint64_t at_ = 0;
  std::uint64_t key_ = 1;
};

/// The results of one round.
struct Figures {
  double update_ns = 0;  // per block stored or removed
  double look_up_p50_ns = 0;
  double look_up_p99_ns = 0;
  double look_up_blocks = 0;  // mean number of blocks found per look-up
  std::size_t index_bytes = 0;
  double bytes_per_block = 0;  // a block that two workers hold counts twice
  Access access;               // right after the updates, with the same threads at work
};

double percentile(std::vector<double>& values, double part) {
  KVIST_CHECK(!values.empty(), "the trace has prompts");
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, at);
  return *at;
}

/// Look-ups of complete 128-block prompts, or of shorter ones if a trace has no others.
class LookUps {
 public:
  explicit LookUps(const Replay& replay) {
    for (const replay::ReplayedRequest& request : replay.requests) longest_ = std::max(longest_, request.keys.size());
    nanoseconds_.reserve(replay.requests.size());
  }

  template <class Index>
  void look_up(Index& index, std::span<const kv::BlockHash> keys) {
    const auto begin = Clock::now();
    const auto matches = index.match(keys);
    const auto end = Clock::now();
    if (keys.size() < longest_) return;
    nanoseconds_.push_back(nanoseconds(end - begin));
    std::uint32_t deepest = 0;
    for (const kv_index::WorkerMatch& match : matches) deepest = std::max(deepest, match.blocks);
    found_ += deepest;
  }

  void report(Figures& figures) {
    figures.look_up_blocks = static_cast<double>(found_) / static_cast<double>(nanoseconds_.size());
    figures.look_up_p50_ns = percentile(nanoseconds_, 0.5);
    figures.look_up_p99_ns = percentile(nanoseconds_, 0.99);
  }

 private:
  std::size_t longest_ = 0;
  std::vector<double> nanoseconds_;
  std::uint64_t found_ = 0;
};

void report_memory(const kv_index::KvIndex& index, std::uint32_t workers, Figures& figures) {
  std::size_t blocks = 0;
  for (std::uint32_t i = 0; i < workers; ++i) blocks += index.worker_blocks(WorkerId(i));
  figures.index_bytes = index.bytes();
  figures.bytes_per_block = static_cast<double>(index.bytes()) / static_cast<double>(blocks);
}

/// Applies the events as the gateway does, where a worker is announced before its message is read.
void apply(kv_index::KvIndex& index, std::span<const replay::EventBatch> batches) {
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (i + 1 < batches.size()) index.prefetch(WorkerId(batches[i + 1].worker));
    index.apply(WorkerId(batches[i].worker), batches[i].events);
  }
}

/// One thread: the look-ups of some requests, then their events.
Figures interleaved(const Replay& replay, std::uint32_t workers, Probe& probe) {
  kv_index::KvIndex index({.model = "model", .block_size = 32});
  LookUps look_ups(replay);
  FreshEvents fresh;
  double updating_ns = 0;
  for (std::size_t from = 0; from < replay.requests.size(); from += kAtOnce) {
    const auto requests = std::span(replay.requests).subspan(from, std::min(kAtOnce, replay.requests.size() - from));
    for (const replay::ReplayedRequest& request : requests) look_ups.look_up(index, request.keys);
    const std::span<const replay::EventBatch> batches = fresh.copy(requests);
    const double begin = thread_ns();
    apply(index, batches);
    updating_ns += thread_ns() - begin;
  }
  Figures figures;
  figures.access = probe.measure();
  figures.update_ns = updating_ns / static_cast<double>(replay.block_operations);
  look_ups.report(figures);
  report_memory(index, workers, figures);
  return figures;
}

/// Two threads: one applies events as fast as it can; the other looks up the prompts that were just stored. It
/// continues while the first one probes the memory, but those look-ups do not count.
Figures writer_and_reader(const Replay& replay, std::uint32_t workers, Probe& probe) {
  kv_index::KvIndex index({.model = "model", .block_size = 32});
  kv_index::KvIndex::Reader reader = index.make_reader();
  LookUps look_ups(replay);
  std::atomic<std::size_t> applied = 0;
  std::atomic<bool> probed = false;
  std::thread reading([&] {
    constexpr std::size_t kRecent = 1'000;
    RandomStream random(1);
    while (!probed.load(std::memory_order_relaxed)) {
      const std::size_t last = applied.load(std::memory_order_relaxed);
      if (last == 0) continue;
      const std::size_t back = random.next() % std::min(last, kRecent);
      const std::span<const kv::BlockHash> keys = replay.requests[last - 1 - back].keys;
      if (last < replay.requests.size()) {
        look_ups.look_up(reader, keys);
      } else {
        benchmark::DoNotOptimize(reader.match(keys));
      }
    }
  });
  FreshEvents fresh;
  double updating_ns = 0;
  for (std::size_t from = 0; from < replay.requests.size(); from += kAtOnce) {
    const auto requests = std::span(replay.requests).subspan(from, std::min(kAtOnce, replay.requests.size() - from));
    const std::span<const replay::EventBatch> batches = fresh.copy(requests);
    const double begin = thread_ns();
    apply(index, batches);
    updating_ns += thread_ns() - begin;
    applied.store(from + requests.size(), std::memory_order_relaxed);
  }
  Figures figures;
  figures.access = probe.measure();
  probed.store(true, std::memory_order_relaxed);
  reading.join();
  figures.update_ns = updating_ns / static_cast<double>(replay.block_operations);
  look_ups.report(figures);
  report_memory(index, workers, figures);
  return figures;
}

/// range(0) workers, range(1) threads. The time is that of a block operation; run-benchmarks shows the rest.
void index_under_trace(benchmark::State& state) {
  const auto workers = static_cast<std::uint32_t>(state.range(0));
  const Replay& replay = replay_of(workers);
  const auto run = state.range(1) == 1 ? interleaved : writer_and_reader;
  static Probe probe;
  for (auto _ : state) {
    Figures best = run(replay, workers, probe);
    for (int round = 1; round < kRounds; ++round) {
      const Figures again = run(replay, workers, probe);
      best.update_ns = std::min(best.update_ns, again.update_ns);
      best.look_up_p50_ns = std::min(best.look_up_p50_ns, again.look_up_p50_ns);
      best.look_up_p99_ns = std::min(best.look_up_p99_ns, again.look_up_p99_ns);
      best.access.dependent_ns = std::min(best.access.dependent_ns, again.access.dependent_ns);
      best.access.independent_ns = std::min(best.access.independent_ns, again.access.independent_ns);
    }
    state.SetIterationTime(best.update_ns * 1e-9);
    state.counters["hash_ns"] = replay.hash_ns;
    state.counters["look_up_p50_ns"] = best.look_up_p50_ns;
    state.counters["look_up_p99_ns"] = best.look_up_p99_ns;
    state.counters["look_up_blocks"] = best.look_up_blocks;
    state.counters["bytes_per_block"] = best.bytes_per_block;
    state.counters["index_mib"] = static_cast<double>(best.index_bytes) / (1 << 20);
    state.counters["block_operations"] = static_cast<double>(replay.block_operations);
    state.counters["probe_mib"] = static_cast<double>(Probe::kBytes) / (1 << 20);
    state.counters["dependent_ns"] = best.access.dependent_ns;
    state.counters["independent_ns"] = best.access.independent_ns;
  }
}
BENCHMARK(index_under_trace)
    ->Name("index/block_operation")
    ->ArgNames({"workers", "threads"})
    ->ArgsProduct({{8, 128, 1'000}, {1, 2}})
    ->Iterations(1)
    ->UseManualTime();

}  // namespace
