// The arithmetic of a model, for the machine's widest vectors: plain functions over rows of numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kvist/engine/cpu/kv_type.h"
#include "kvist/kv/block_pool.h"

/// Threads: every function may run on any number of threads at once; a caller divides the work. Each result depends on
/// its own row alone: the same bits come out whatever other rows, panels and threads are at work, because every sum has
/// one order. All pointers are aligned to 4 bytes at least.
///
/// Rows of activations lie `stride` numbers apart, at least padded(n), and are followed by zeros up to there: kernels
/// have no tails.
namespace kvist::engine::cpu::kernels {

/// The widest two vectors of F32 of any machine.
inline constexpr std::size_t kRowPadding = 32;
[[nodiscard]] constexpr std::size_t padded(std::size_t n) {
  return (n + kRowPadding - 1) / kRowPadding * kRowPadding;
}

/// Numbers between two rows of n: not a multiple of a page, or the rows of a tile would all fall into the same few
/// lines of the caches.
[[nodiscard]] constexpr std::size_t row_stride(std::size_t n) {
  return padded(n) + kRowPadding / 2;
}

/// The instruction set in use, chosen at the first call as the best this machine has: "AVX3", "AVX2", "NEON".
[[nodiscard]] std::string_view instruction_set();
/// All that this build has and this machine runs, best first.
[[nodiscard]] std::vector<std::string_view> instruction_sets();
/// Takes another of them: only while no weights are packed, whose layout depends on it, and nothing computes. False
/// for one that is not there. For tests and for comparing.
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
  bool packed = false;         ///< scratch is as the last call left it, which had the same x; only if packs_once()
};
inline constexpr std::size_t kMatmulScratch = std::size_t{240} * 256;
void matmul(const MatmulTask& task);
/// Whether a call with so many rows leaves all of x in scratch as further calls with other panels need it.
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
  std::size_t first_position = 0;  ///< of row 0; row r sees the tokens [0, first_position + r]
  float scale = 1;
  const kv::BlockId* blocks = nullptr;  ///< of the sequence, from its first token on
  std::size_t block_size = 0;           ///< 16, 32, 64 or 128
  const void* cache = nullptr;          ///< this layer and head of block 0, aligned to its numbers
  KvType type = KvType::kBf16;          ///< of its numbers
  std::size_t block_stride = 0;         ///< numbers from there to block 1's
  float* scratch = nullptr;             ///< of this thread: attention_scratch() numbers
};
/// Query vectors of one task where the group allows: enough to use each loaded key for several.
inline constexpr std::size_t kAttentionRows = 32;
/// Scores of a query vector: a span, and not a power of two apart.
inline constexpr std::size_t kAttentionScores = 144;
/// The numbers of scratch for one thread.
[[nodiscard]] std::size_t attention_scratch(std::size_t head_dim, std::size_t group);
void attend(const AttentionTask& task);

/// out = x / sqrt(mean of x^2 + epsilon) * weight. n numbers; all three padded.
void rms_norm(const float* x, const float* weight, float epsilon, std::size_t n, float* out);
/// x += y, padded.
void add(float* x, const float* y, std::size_t n);
/// x += y, the numbers of one panel's columns.
void add_panel(float* x, const float* y);
/// A head as rms_norm() has a row, in place; head_dim is a multiple of 16.
void rms_norm_head(float* head, const float* weight, float epsilon, std::size_t head_dim);
/// out = gate * up / (1 + exp(-gate)) over n numbers, a multiple of the vector.
void silu_multiply(const float* gate, const float* up, std::size_t n, float* out);
/// Turns a head's pairs (i, i + head_dim / 2) by the angles of its position: cosines, then sines (rope.h).
void rope(float* head, const float* angles, std::size_t head_dim);

}  // namespace kvist::engine::cpu::kernels
