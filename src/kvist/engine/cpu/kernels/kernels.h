// The arithmetic of a model as plain functions over rows of numbers, compiled for the machine's widest vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kvist/engine/cpu/kv_type.h"
#include "kvist/kv/block_pool.h"

/// Threads: any; the caller divides the work. Each result depends on its own row alone: every sum has one order, so the
/// same bits come out whatever other rows, panels and threads are computed. Requires: pointers aligned to 4 bytes.
///
/// Rows of activations lie `stride` numbers apart, at least padded(n), and are zero-filled up to there: kernels have no
/// tail loops.
namespace kvist::engine::cpu::kernels {

/// Two of the widest vectors of F32 that any machine has.
inline constexpr std::size_t kRowPadding = 32;
[[nodiscard]] constexpr std::size_t padded(std::size_t n) {
  return (n + kRowPadding - 1) / kRowPadding * kRowPadding;
}

/// The stride of rows of n numbers: not a multiple of a page, because the rows of a tile would then share a few sets of
/// the caches.
[[nodiscard]] constexpr std::size_t row_stride(std::size_t n) {
  return padded(n) + kRowPadding / 2;
}

/// The instruction set in use, chosen at the first call as the best of this machine: "AVX3", "AVX2", "NEON".
[[nodiscard]] std::string_view instruction_set();
/// The instruction sets that this build has and this machine supports, best first.
[[nodiscard]] std::vector<std::string_view> instruction_sets();
/// Switches to another of them, for tests and comparisons; false if it is not available. Requires: no packed weights,
/// whose layout depends on it, and no kernel running.
bool choose_instruction_set(std::string_view name);
/// Outputs side by side in a panel of packed weights: two vectors of F32.
[[nodiscard]] std::size_t panel_columns();

/// y = x W over some panels of packed weights (packed_matrix.h). Each y[row][column] is one chain of fused
/// multiply-adds from 0 over the depth in ascending order.
struct MatmulTask {
  const void* weights = nullptr;
  bool bf16 = false;
  std::size_t depth = 0;
  const float* x = nullptr;  ///< [rows][depth]
  std::size_t x_stride = 0;
  std::size_t rows = 0;
  float* y = nullptr;  ///< [rows][all panels' columns]
  std::size_t y_stride = 0;
  std::size_t first_panel = 0;
  std::size_t last_panel = 0;  ///< one past it
  float* scratch = nullptr;    ///< of this thread: kMatmulScratch numbers
  bool packed = false;         ///< scratch holds x as the last call packed it; only if packs_once()
};
inline constexpr std::size_t kMatmulScratch = std::size_t{240} * 256;
void matmul(const MatmulTask& task);
/// Whether a call with `rows` rows leaves all of x packed in scratch, for further calls with other panels.
[[nodiscard]] bool packs_once(std::size_t rows, std::size_t depth);

/// Causal attention of the query heads that share one KV head, for consecutive positions of one sequence.
///
/// A KV block holds block_size tokens of this head: keys as [head_dim][block_size], then values as
/// [block_size][head_dim], as numbers of one type. One pass over the blocks: scores of a span of 64 tokens (or one
/// block, if that is more), a running maximum, and the sum scaled when it grows (Milakov and Gimelshein, 2018). Spans
/// begin at multiples of their length, so a row's result does not depend on which rows are computed with it.
struct AttentionTask {
  const float* queries = nullptr;  ///< row r, head g of the group: queries + r * query_stride + g * head_dim
  std::size_t query_stride = 0;
  float* out = nullptr;  ///< laid out like the queries
  std::size_t out_stride = 0;
  std::size_t rows = 0;            ///< at most kAttentionRows / group, or 1
  std::size_t group = 1;           ///< query heads
  std::size_t head_dim = 0;        ///< a multiple of 16
  std::size_t first_position = 0;  ///< of row 0; row r attends to the tokens [0, first_position + r]
  float scale = 1;
  const kv::BlockId* blocks = nullptr;  ///< of the sequence, from its first token on
  std::size_t block_size = 0;           ///< 16, 32, 64 or 128
  const void* cache = nullptr;          ///< this layer and head of block 0, aligned to its numbers
  KvType type = KvType::kBf16;          ///< of its numbers
  std::size_t block_stride = 0;         ///< numbers from there to block 1's
  float* scratch = nullptr;             ///< of this thread: attention_scratch() numbers
};
/// The most query vectors of a task, if the group allows: enough to use each loaded key several times.
inline constexpr std::size_t kAttentionRows = 32;
/// The stride of a query vector's scores: at least a span, and not a power of two.
inline constexpr std::size_t kAttentionScores = 144;
/// The size of one thread's scratch, in numbers.
[[nodiscard]] std::size_t attention_scratch(std::size_t head_dim, std::size_t group);
void attend(const AttentionTask& task);

/// out = x / sqrt(mean of x^2 + epsilon) * weight. n numbers; all three padded.
void rms_norm(const float* x, const float* weight, float epsilon, std::size_t n, float* out);
/// x += y, padded.
void add(float* x, const float* y, std::size_t n);
/// x += y, the numbers of one panel's columns.
void add_panel(float* x, const float* y);
/// rms_norm() of a head, in place. Requires: head_dim is a multiple of 16.
void rms_norm_head(float* head, const float* weight, float epsilon, std::size_t head_dim);
/// out = gate * up / (1 + exp(-gate)) over n numbers, a multiple of the vector.
void silu_multiply(const float* gate, const float* up, std::size_t n, float* out);
/// Rotates a head's pairs (i, i + head_dim / 2) by the angles of its position: cosines, then sines (rope.h).
void rope(float* head, const float* angles, std::size_t head_dim);

}  // namespace kvist::engine::cpu::kernels
