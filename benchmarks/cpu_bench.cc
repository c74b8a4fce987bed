// bench: engine/cpu
// The CPU engine: complete steps of a model with the layers of a 1B model, and attention alone. Other processes on
// shared machines take a core for milliseconds. So each figure is the best of many short rounds in which every thread
// kept its CPU, and between two rounds the probes run on the same threads at the same time: peak fused multiply-adds,
// and a sequential read of memory. The figure to compare is the share of a probe.
//
// KVIST_CPU_INSTRUCTION_SET names a lesser instruction set (AVX2 on a machine with AVX-512).
#include <benchmark/benchmark.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/engine/cpu/forward_pass.h"
#include "kvist/engine/cpu/kernels/kernels.h"
#include "kvist/engine/cpu/kernels/probe.h"
#include "kvist/engine/cpu/model_writer.h"

namespace {

using namespace kvist;
using namespace kvist::engine::cpu;
using Clock = std::chrono::steady_clock;

// The probes last as long as the steps that they are compared with: the best of shorter ones would be a more favourable
// moment.
constexpr std::size_t kProbeBytes = 384U << 20;  // as a step reads, far beyond the last-level cache
constexpr std::uint64_t kFmaRounds = 4'000'000;  // some 8 ms
constexpr double kSecondsEach = 4;               // per figure, probes included
constexpr int kLeastRounds = 12;

/// During its lifetime each thread of a pool has its own CPU, at real-time priority if the system allows it: other
/// processes are kept off these CPUs for the milliseconds of a round.
class OwnCpus {
 public:
  explicit OwnCpus(ThreadPool& pool) : pool_(pool), before_(pool.threads()) {
    pool_.run([&](unsigned thread) {
      ::sched_getaffinity(0, sizeof before_[thread], &before_[thread]);
      cpu_set_t cpu;
      CPU_ZERO(&cpu);
      CPU_SET(thread, &cpu);
      schedule(cpu, SCHED_FIFO, 1);
    });
  }
  OwnCpus(const OwnCpus&) = delete;
  OwnCpus& operator=(const OwnCpus&) = delete;
  /// Restores the previous state, because later threads, and a pool's count of CPUs, inherit it.
  ~OwnCpus() {
    pool_.run([&](unsigned thread) { schedule(before_[thread], SCHED_OTHER, 0); });
  }

 private:
  /// Sets the calling thread's CPUs and priority. If either is not allowed, fewer rounds are undisturbed.
  static void schedule(const cpu_set_t& cpus, int policy, int priority) {
    const sched_param how{.sched_priority = priority};
    ::sched_setaffinity(0, sizeof cpus, &cpus);
    ::sched_setscheduler(0, policy, &how);
  }

  ThreadPool& pool_;
  std::vector<cpu_set_t> before_;
};

/// How often another process took this thread's CPU.
long times_displaced() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

/// The wall-clock seconds of `work`, or infinity if a thread was displaced meanwhile. CPU time would be wrong: threads
/// that take turns on one CPU each have the machine's whole bandwidth, and the sum would exceed it.
double seconds(ThreadPool& pool, const std::function<void()>& work) {
  std::vector<long> displaced(pool.threads());
  pool.run([&](unsigned thread) { displaced[thread] = -times_displaced(); });
  const auto begin = Clock::now();
  work();
  const std::chrono::duration<double> took = Clock::now() - begin;
  pool.run([&](unsigned thread) { displaced[thread] += times_displaced(); });
  return std::ranges::all_of(displaced, [](long times) { return times == 0; })
             ? took.count()
             : std::numeric_limits<double>::infinity();
}

/// The machine's best two rates so far, per number of threads, over all figures of this process.
class Probes {
 public:
  /// The probes of this number of threads, with their rates so far.
  static Probes& of(const ThreadPool& pool) {
    static std::map<unsigned, Probes> kProbes;
    return kProbes[pool.threads()];
  }

  void measure(ThreadPool& pool) {
    std::atomic<std::uint64_t> operations = 0;
    const double fma = seconds(pool, [&] {
      pool.run([&](unsigned) {
        float sink = 0;
        operations += kernels::fma_probe(kFmaRounds, sink);
        benchmark::DoNotOptimize(sink);
      });
    });
    flops = std::max(flops, static_cast<double>(operations) / fma);
    const auto words = memory();
    const double read = seconds(pool, [&] {
      pool.run([&](unsigned thread) {
        const Range part = part_of(words.size(), thread, pool.threads());
        std::uint32_t sum = kernels::read_probe(words.subspan(part.begin, part.size()));
        benchmark::DoNotOptimize(sum);
      });
    });
    bytes_per_s = std::max(bytes_per_s, static_cast<double>(kProbeBytes) / read);
  }

  double flops = 0;
  double bytes_per_s = 0;

 private:
  static std::span<const std::uint32_t> memory() {
    static const AlignedBuffer kMemory = [] {
      AlignedBuffer buffer(kProbeBytes);
      std::ranges::fill(buffer.as<std::uint32_t>(), 1U);
      return buffer;
    }();
    return kMemory.as<std::uint32_t>();
  }
};

/// Runs rounds of probes and work; reports the work's best time, and its rates as shares of the probes.
void report(benchmark::State& state, ThreadPool& pool, double flops, double bytes, const std::function<void()>& work) {
  Probes& probes = Probes::of(pool);
  for ([[maybe_unused]] auto _ : state) {
    double best = std::numeric_limits<double>::infinity();
    work();
    const auto begin = Clock::now();
    for (int round = 0; round < kLeastRounds || Clock::now() - begin < std::chrono::duration<double>(kSecondsEach);
         ++round) {
      const auto start = Clock::now();
      {
        const OwnCpus own(pool);
        probes.measure(pool);
        best = std::min(best, seconds(pool, work));
      }
      std::this_thread::sleep_for(Clock::now() - start);  // lets other processes run
    }
    if (std::isinf(best) || probes.flops == 0 || probes.bytes_per_s == 0) {
      state.SkipWithError("other processes had the CPUs in every round");
      return;
    }
    state.SetIterationTime(best);
    state.counters["flops_per_s"] = flops / best;
    state.counters["read_bytes_per_s"] = bytes / best;
    state.counters["probe_flops_per_s"] = probes.flops;
    state.counters["probe_read_bytes_per_s"] = probes.bytes_per_s;
  }
}

/// Three layers in the shapes of Llama 3.2 1B, and a small vocabulary: 380 MB of weights in BF16.
LlamaConfig bench_config() {
  LlamaConfig config = config_of(ModelSize::kBase, 4096, 0, 1);
  config.hidden_size = 2048;
  config.intermediate_size = 8192;
  config.layers = 3;
  config.heads = 32;
  config.kv_heads = 8;
  return config;
}

constexpr std::uint32_t kMaxRows = 512;
constexpr std::uint32_t kContext = 256;  // of a decode
constexpr std::uint32_t kBlockSize = 16;

/// The model, written as a checkpoint and loaded once per number of threads.
struct Engine {
  explicit Engine(unsigned threads) : pool(threads), cache(bench_config(), 1024, kBlockSize, KvType::kBf16) {
    const auto folder = std::filesystem::temp_directory_path() / "kvist_cpu_bench_model";
    const auto written = write_model(bench_config(), DataType::kBf16, 1, folder.string());
    KVIST_CHECK(written, written.error().message);
    const auto checkpoint = Checkpoint::open(folder.string());
    KVIST_CHECK(checkpoint, checkpoint.error().message);
    auto loaded = LlamaModel::load(*checkpoint, bench_config(), DataType::kBf16, pool);
    KVIST_CHECK(loaded, loaded.error().message);
    model = std::make_unique<LlamaModel>(std::move(*loaded));
    forward = std::make_unique<ForwardPass>(*model, cache, pool, ForwardLimits{kMaxRows, 64});
    std::filesystem::remove_all(folder);
  }

  ThreadPool pool;
  KvCache cache;
  std::unique_ptr<LlamaModel> model;
  std::unique_ptr<ForwardPass> forward;
};

Engine& engine(unsigned threads) {
  static std::unique_ptr<Engine> kept;
  if (kept == nullptr || kept->pool.threads() != threads) {
    kept.reset();
    kept = std::make_unique<Engine>(threads);
  }
  return *kept;
}

/// Sequences that each compute `rows` tokens after `before` others, without shared blocks.
struct Step {
  Step(std::uint32_t sequence_count, std::uint32_t rows, std::uint32_t before) : tokens(sequence_count * rows) {
    const std::uint32_t blocks = (before + rows + kBlockSize - 1) / kBlockSize;
    for (std::uint32_t i = 0; i < tokens.size(); ++i) tokens[i] = TokenId(i * 37 % 4096);
    for (std::uint32_t s = 0; s < sequence_count; ++s) {
      tables.emplace_back();
      for (std::uint32_t b = 0; b < blocks; ++b) tables.back().emplace_back(s * blocks + b);
      logit_rows.push_back((s + 1) * rows - 1);
    }
    for (const auto& table : tables) sequences.push_back({rows, before, table});
  }
  [[nodiscard]] Batch batch() const { return {tokens, sequences, logit_rows}; }

  std::vector<TokenId> tokens;
  std::vector<std::vector<kv::BlockId>> tables;
  std::vector<SequenceRows> sequences;
  std::vector<std::uint32_t> logit_rows;
};

void run_step(benchmark::State& state, std::uint32_t sequences, std::uint32_t rows, std::uint32_t before) {
  Engine& e = engine(static_cast<unsigned>(state.range(0)));
  const LlamaConfig& config = e.model->config();
  const Step step(sequences, rows, before);
  const double all_rows = static_cast<double>(sequences) * rows;
  const double context = before + rows / 2.0;  // the tokens that a row attends to, on average
  const double head_weights = static_cast<double>(config.vocabulary) * config.hidden_size;
  const double layer_weights = static_cast<double>(config.parameters()) - head_weights;
  const double attention = 4 * all_rows * context * static_cast<double>(config.query_width() * config.layers);
  const double flops = 2 * (all_rows * layer_weights + sequences * head_weights) + attention;
  const double kv_bytes =
      static_cast<double>(KvCache::bytes_per_block(config, kBlockSize, KvType::kBf16) / kBlockSize) *
      static_cast<double>(sequences) * (before + rows);
  report(state, e.pool, flops, static_cast<double>(e.model->bytes_per_step()) + kv_bytes,
         [&] { benchmark::DoNotOptimize(e.forward->run(step.batch())); });
}

void decode_1(benchmark::State& state) {
  run_step(state, 1, 1, kContext);
}
void decode_4(benchmark::State& state) {
  run_step(state, 4, 1, kContext);
}
void decode_8(benchmark::State& state) {
  run_step(state, 8, 1, kContext);
}
void decode_16(benchmark::State& state) {
  run_step(state, 16, 1, kContext);
}
void prefill_128(benchmark::State& state) {
  run_step(state, 1, 128, 0);
}
void prefill_512(benchmark::State& state) {
  run_step(state, 1, 512, 0);
}

/// One layer's attention: `rows` rows of one sequence after `before` tokens, 32 query heads on 8 KV heads.
void attention(benchmark::State& state, std::uint32_t rows, std::uint32_t before) {
  LlamaConfig config = bench_config();
  config.layers = 1;
  ThreadPool pool(static_cast<unsigned>(state.range(0)));
  const std::uint32_t blocks = (before + rows + kBlockSize - 1) / kBlockSize;
  KvCache cache(config, blocks, kBlockSize, KvType::kBf16);
  std::vector<kv::BlockId> table;
  for (std::uint32_t b = 0; b < blocks; ++b) {
    table.emplace_back(b);
    std::ranges::fill(cache.block(table.back()), std::byte{0x3d});  // numbers of 0.046
  }
  const std::size_t width = config.query_width();
  std::vector<float> queries(rows * width, 0.1F);
  std::vector<float> out(rows * width);
  const std::size_t at_once = std::min<std::size_t>(rows, kernels::kAttentionRows / config.group());
  const std::size_t tiles = rows / at_once;
  const auto work = [&] {
    pool.run([&](unsigned thread) {
      std::vector<float> scratch(kernels::attention_scratch(config.head_dim, config.group()));
      const Range heads = part_of(config.kv_heads, thread, pool.threads());
      for (std::size_t head = heads.begin; head < heads.end; ++head) {
        for (std::size_t tile = 0; tile < tiles; ++tile) {
          const std::size_t at = tile * at_once * width + head * config.group() * config.head_dim;
          kernels::attend({.queries = queries.data() + at,
                           .query_stride = width,
                           .out = out.data() + at,
                           .out_stride = width,
                           .rows = at_once,
                           .group = config.group(),
                           .head_dim = config.head_dim,
                           .first_position = before + tile * at_once,
                           .scale = 0.125F,
                           .blocks = table.data(),
                           .block_size = kBlockSize,
                           .cache = cache.head(0, static_cast<std::uint32_t>(head)),
                           .block_stride = cache.block_stride(),
                           .scratch = scratch.data()});
        }
      }
    });
  };
  const double bytes = static_cast<double>(KvCache::bytes_per_block(config, kBlockSize, KvType::kBf16)) * blocks;
  report(state, pool, 4.0 * rows * (before + rows / 2.0) * static_cast<double>(width), bytes, work);
}

void attention_decode(benchmark::State& state) {
  attention(state, 1, 65536);
}
void attention_prefill(benchmark::State& state) {
  attention(state, 256, 2048);
}

/// Google Benchmark parses its arguments later; this must come before any weight is packed.
const bool kInstructionSetChosen = [] {
  const char* const name = std::getenv("KVIST_CPU_INSTRUCTION_SET");
  KVIST_CHECK(name == nullptr || kernels::choose_instruction_set(name), "no such instruction set");
  return true;
}();

void on_threads(benchmark::internal::Benchmark* b) {
  b->Arg(1);
  if (std::thread::hardware_concurrency() > 1) b->Arg(2);
  b->ArgName("threads")->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);
}
BENCHMARK(decode_1)->Name("cpu/decode_1")->Apply(on_threads);
BENCHMARK(decode_4)->Name("cpu/decode_4")->Apply(on_threads);
BENCHMARK(decode_8)->Name("cpu/decode_8")->Apply(on_threads);
BENCHMARK(decode_16)->Name("cpu/decode_16")->Apply(on_threads);
BENCHMARK(prefill_128)->Name("cpu/prefill_128")->Apply(on_threads);
BENCHMARK(prefill_512)->Name("cpu/prefill_512")->Apply(on_threads);
BENCHMARK(attention_decode)->Name("cpu/attention_decode")->Apply(on_threads);
BENCHMARK(attention_prefill)->Name("cpu/attention_prefill")->Apply(on_threads);

}  // namespace
