// One step of a model: tokens of many sequences in, logits out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/engine/cpu/aligned_buffer.h"
#include "kvist/engine/cpu/kv_cache.h"
#include "kvist/engine/cpu/llama_model.h"
#include "kvist/engine/cpu/shared_range.h"
#include "kvist/engine/cpu/thread_pool.h"
#include "kvist/kv/block_pool.h"

namespace kvist::engine::cpu {

/// The part of one sequence in a batch: `rows` consecutive tokens at positions from first_position on. Requires: all
/// tokens before them are computed into its blocks.
struct SequenceRows {
  std::uint32_t rows = 0;  ///< at least 1
  std::uint32_t first_position = 0;
  std::span<const kv::BlockId> blocks;  ///< from the sequence's first token on, up to its last row
};

/// One ragged batch of prefill chunks, decodes and verifications. Row i is tokens[i]; the rows of a sequence are
/// contiguous, in the order of `sequences`. No two sequences of a batch write the same block.
struct Batch {
  std::span<const TokenId> tokens;
  std::span<const SequenceRows> sequences;
  std::span<const std::uint32_t> logit_rows;  ///< rows that need logits, ascending
};

/// The logits of Batch::logit_rows, in that order.
class Logits {
 public:
  Logits(float* numbers, std::size_t rows, std::size_t vocabulary, std::size_t stride)
      : numbers_(numbers), rows_(rows), vocabulary_(vocabulary), stride_(stride) {}

  [[nodiscard]] std::size_t rows() const { return rows_; }
  /// One per token of the vocabulary; the caller may change them (penalties, bias).
  [[nodiscard]] std::span<float> row(std::size_t i) const { return {numbers_ + i * stride_, vocabulary_}; }

 private:
  float* numbers_;
  std::size_t rows_;
  std::size_t vocabulary_;
  std::size_t stride_;
};

/// The greatest batch of a step.
struct ForwardLimits {
  std::uint32_t rows = 512;       ///< tokens of a batch
  std::uint32_t logit_rows = 64;  ///< rows with logits
};

/// Computes batches. The activations are allocated once: run() allocates nothing. Threads: one call of run() at a time.
///
/// Llama: x = embedding; per layer x += Wo attention(rope(Wq n), rope(Wk n), Wv n), n = norm(x), and
/// x += Wdown (silu(Wgate n) * Wup n), n = norm(x); logits = Wout norm(x). Qwen2 adds biases to Wq n, Wk n and Wv n,
/// Qwen3 normalizes each head of Wq n and Wk n. Residual and sums are F32; keys and values
/// are rounded to the cache's type as they are stored, also those of the batch itself.
///
/// Invariant: a row's keys, values and logits depend on its own sequence's tokens alone, to the bit.
class ForwardPass {
 public:
  /// Requires: all three outlive this.
  ForwardPass(const LlamaModel& model, KvCache& cache, ThreadPool& pool, const ForwardLimits& limits);

  /// The memory of the activations, in bytes.
  [[nodiscard]] static std::uint64_t bytes_for(const LlamaConfig& config, const ForwardLimits& limits,
                                               unsigned threads);

  /// Writes the batch's keys and values into its blocks and returns the logits, good until the next call. Requires: a
  /// batch within the limits, tokens of the vocabulary, blocks of the cache.
  [[nodiscard]] Logits run(const Batch& batch);
  /// The logits of further rows of the last batch, good until the next call. Requires: ascending, within the limits,
  /// and none of a row that had its logits before.
  [[nodiscard]] Logits more_logits(std::span<const std::uint32_t> logit_rows);

 private:
  struct Row {
    std::uint32_t position = 0;
    std::uint32_t offset = 0;  // in its block
    kv::BlockId block;
  };
  /// Some rows of one sequence and one KV head.
  struct AttentionUnit {
    std::uint32_t first_row = 0;
    std::uint32_t rows = 0;
    std::uint32_t kv_head = 0;
    const SequenceRows* sequence = nullptr;
  };
  /// One kind of activation: `width` numbers per row.
  struct Area {
    float* numbers = nullptr;
    std::size_t stride = 0;
    [[nodiscard]] float* row(std::size_t i) const { return numbers + i * stride; }
  };
  /// The sizes of all areas, which determine memory and addresses.
  struct Layout;

  void place_rows(const Batch& batch);
  void plan_attention(const Batch& batch);
  void embed(const Batch& batch);
  void add_and_normalize(const std::vector<float>& weight, bool add);
  /// y = x W. `then(panels)`, on the thread that computed them, follows each run of panels; runs of `unit` stay whole.
  template <class Then>
  void multiply(const PackedMatrix& weights, const Area& x, std::size_t rows, const Area& y, std::size_t unit,
                const Then& then);
  void multiply(const PackedMatrix& weights, const Area& x, std::size_t rows, const Area& y);
  void query_key_value(const LlamaLayer& layer);
  /// The norm, if there is one, and the rotation of a query or key head.
  void finish_head(const std::vector<float>& norm, std::size_t row, std::size_t column);
  void store_and_turn(std::uint32_t layer);
  void attend(std::uint32_t layer);
  void gate_and_up(const PackedMatrix& weights);
  void output(std::span<const std::uint32_t> logit_rows);

  const LlamaModel& model_;
  const LlamaConfig& config_;
  KvCache& cache_;
  ThreadPool& pool_;
  ForwardLimits limits_;
  std::vector<double> frequencies_;

  AlignedBuffer memory_;
  Area residual_;
  Area normal_;  // the normalized residual: the input of a product
  Area delta_;   // the output of a product, added to the residual
  Area qkv_;
  Area attention_;
  Area gate_up_;
  Area product_;  // of gate and up
  Area angles_;
  Area selected_;  // normalised rows with logits
  Area logits_;
  std::vector<float*> scratch_;  // per thread

  std::size_t rows_ = 0;  // of the batch under way
  std::vector<Row> placed_;
  std::vector<AttentionUnit> units_;
  SharedRange shared_;  // of the stage under way
};

}  // namespace kvist::engine::cpu
