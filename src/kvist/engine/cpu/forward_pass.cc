#include "kvist/engine/cpu/forward_pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kvist/base/check.h"
#include "kvist/engine/cpu/kernels/kernels.h"
#include "kvist/engine/cpu/rope.h"

namespace kvist::engine::cpu {

using kernels::padded;
using kernels::row_stride;

namespace {

// Weights that a thread takes at once: a few microseconds of reading, short enough that the threads end almost
// together, long enough that few memory streams restart.
constexpr std::size_t kRunBytes = 256U << 10;

}  // namespace

struct ForwardPass::Layout {
  Layout(const LlamaConfig& config, const ForwardLimits& limits, unsigned thread_count)
      : rows(limits.rows),
        logit_rows(limits.logit_rows),
        threads(thread_count),
        hidden(row_stride(config.hidden_size)),
        qkv(row_stride(config.qkv_width())),
        attention(row_stride(config.query_width())),
        gate_up(row_stride(2 * padded(config.intermediate_size))),
        intermediate(row_stride(config.intermediate_size)),
        angles(config.head_dim),
        vocabulary(row_stride(config.vocabulary)),
        scratch(
            padded(std::max(kernels::kMatmulScratch, kernels::attention_scratch(config.head_dim, config.group())))) {}

  [[nodiscard]] std::uint64_t bytes() const {
    const std::uint64_t per_row = 3 * hidden + qkv + attention + gate_up + intermediate + angles;
    return sizeof(float) * (rows * per_row + logit_rows * (hidden + vocabulary) + threads * std::uint64_t{scratch});
  }

  std::uint64_t rows;
  std::uint64_t logit_rows;
  std::uint64_t threads;
  std::size_t hidden;
  std::size_t qkv;
  std::size_t attention;
  std::size_t gate_up;
  std::size_t intermediate;
  std::size_t angles;
  std::size_t vocabulary;
  std::size_t scratch;
};

ForwardPass::ForwardPass(const LlamaModel& model, KvCache& cache, ThreadPool& pool, const ForwardLimits& limits)
    : model_(model),
      config_(model.config()),
      cache_(cache),
      pool_(pool),
      limits_(limits),
      frequencies_(rope_frequencies(model.config())),
      memory_(bytes_for(model.config(), limits, pool.threads())),
      placed_(limits.rows),
      shared_(pool.threads()) {
  const Layout layout(config_, limits, pool.threads());
  float* next = memory_.as<float>().data();
  const auto take = [&](std::size_t rows, std::size_t stride) {
    const Area area{next, stride};
    next += rows * stride;
    return area;
  };
  residual_ = take(layout.rows, layout.hidden);
  normal_ = take(layout.rows, layout.hidden);
  delta_ = take(layout.rows, layout.hidden);
  qkv_ = take(layout.rows, layout.qkv);
  attention_ = take(layout.rows, layout.attention);
  gate_up_ = take(layout.rows, layout.gate_up);
  product_ = take(layout.rows, layout.intermediate);
  angles_ = take(layout.rows, layout.angles);
  selected_ = take(layout.logit_rows, layout.hidden);
  logits_ = take(layout.logit_rows, layout.vocabulary);
  for (unsigned i = 0; i < pool.threads(); ++i) scratch_.push_back(take(1, layout.scratch).numbers);
  KVIST_CHECK(next == memory_.as<float>().data() + memory_.as<float>().size(), "the layout's bytes are its areas'");
  units_.reserve(std::size_t{limits.rows} * config_.kv_heads);
}

std::uint64_t ForwardPass::bytes_for(const LlamaConfig& config, const ForwardLimits& limits, unsigned threads) {
  return Layout(config, limits, threads).bytes();
}

Logits ForwardPass::run(const Batch& batch) {
  place_rows(batch);
  plan_attention(batch);
  embed(batch);
  bool first = true;
  for (std::uint32_t i = 0; i < config_.layers; ++i) {
    const LlamaLayer& layer = model_.layers()[i];
    add_and_normalize(layer.attention_norm, !first);
    first = false;
    query_key_value(layer);
    store_and_turn(i);
    attend(i);
    multiply(layer.attention_out, attention_, rows_, delta_);
    add_and_normalize(layer.mlp_norm, true);
    gate_and_up(layer.gate_up);
    multiply(layer.down, product_, rows_, delta_);
  }
  return more_logits(batch.logit_rows);
}

Logits ForwardPass::more_logits(std::span<const std::uint32_t> logit_rows) {
  KVIST_CHECK(logit_rows.size() <= limits_.logit_rows && (logit_rows.empty() || logit_rows.back() < rows_),
              fmt::format("{} rows with logits", logit_rows.size()));
  output(logit_rows);
  return {logits_.numbers, logit_rows.size(), config_.vocabulary, logits_.stride};
}

void ForwardPass::place_rows(const Batch& batch) {
  rows_ = batch.tokens.size();
  KVIST_CHECK(rows_ <= limits_.rows && batch.logit_rows.size() <= limits_.logit_rows,
              fmt::format("{} rows, {} with logits", rows_, batch.logit_rows.size()));
  const std::uint32_t size = cache_.block_size();
  std::size_t row = 0;
  for (const SequenceRows& sequence : batch.sequences) {
    const std::uint64_t tokens = std::uint64_t{sequence.first_position} + sequence.rows;
    KVIST_CHECK(
        sequence.rows > 0 && tokens <= sequence.blocks.size() * size && row + sequence.rows <= rows_,
        fmt::format("{} rows from {} in {} blocks", sequence.rows, sequence.first_position, sequence.blocks.size()));
    for (std::uint32_t i = 0; i < sequence.rows; ++i) {
      const std::uint32_t position = sequence.first_position + i;
      const kv::BlockId block = sequence.blocks[position / size];
      KVIST_CHECK(block.value() < cache_.blocks(), fmt::format("no block {}", block.value()));
      placed_[row++] = {position, position % size, block};
    }
  }
  KVIST_CHECK(row == rows_, "each token belongs to a sequence");
  for (std::size_t i = 0; i < batch.logit_rows.size(); ++i) {
    KVIST_CHECK(batch.logit_rows[i] < rows_ && (i == 0 || batch.logit_rows[i - 1] < batch.logit_rows[i]),
                "rows with logits: rows of the batch, ascending, each once");
  }
}

void ForwardPass::plan_attention(const Batch& batch) {
  units_.clear();
  const auto at_once = static_cast<std::uint32_t>(std::max<std::size_t>(1, kernels::kAttentionRows / config_.group()));
  std::uint32_t first = 0;
  for (const SequenceRows& sequence : batch.sequences) {
    // Head by head, so that a head's keys and values stay in the CPU's caches for the next rows.
    for (std::uint32_t head = 0; head < config_.kv_heads; ++head) {
      for (std::uint32_t row = 0; row < sequence.rows; row += at_once) {
        units_.push_back({first + row, std::min(at_once, sequence.rows - row), head, &sequence});
      }
    }
    first += sequence.rows;
  }
}

void ForwardPass::embed(const Batch& batch) {
  pool_.run([&](unsigned thread) {
    const Range part = part_of(rows_, thread, pool_.threads());
    for (std::size_t row = part.begin; row < part.end; ++row) {
      model_.embed(batch.tokens[row], residual_.row(row));
      rope_angles(frequencies_, placed_[row].position, {angles_.row(row), config_.head_dim});
    }
  });
}

void ForwardPass::add_and_normalize(const std::vector<float>& weight, bool add) {
  pool_.run([&](unsigned thread) {
    const Range part = part_of(rows_, thread, pool_.threads());
    for (std::size_t row = part.begin; row < part.end; ++row) {
      if (add) kernels::add(residual_.row(row), delta_.row(row), config_.hidden_size);
      kernels::rms_norm(residual_.row(row), weight.data(), static_cast<float>(config_.rms_norm_epsilon),
                        config_.hidden_size, normal_.row(row));
    }
  });
}

template <class Then>
void ForwardPass::multiply(const PackedMatrix& weights, const Area& x, std::size_t rows, const Area& y,
                           std::size_t unit, const Then& then) {
  const bool packs_once = kernels::packs_once(rows, weights.depth());
  const std::size_t units = weights.panels() / unit;
  // Short runs only if x need not be packed anew for each; otherwise a thread takes its whole part at once.
  const std::size_t unit_bytes = weights.bytes() / units;
  shared_.begin(units, packs_once ? std::max<std::size_t>(1, kRunBytes / unit_bytes) : units);
  pool_.run([&](unsigned thread) {
    bool packed = false;
    for (Range run; (run = shared_.take(thread)).size() > 0; packed = packs_once) {
      const Range panels{run.begin * unit, run.end * unit};
      kernels::matmul({.weights = weights.data(),
                       .bf16 = weights.type() == DataType::kBf16,
                       .depth = weights.depth(),
                       .x = x.numbers,
                       .x_stride = x.stride,
                       .rows = rows,
                       .y = y.numbers,
                       .y_stride = y.stride,
                       .first_panel = panels.begin,
                       .last_panel = panels.end,
                       .scratch = scratch_[thread],
                       .packed = packed});
      then(panels);
    }
  });
}

void ForwardPass::multiply(const PackedMatrix& weights, const Area& x, std::size_t rows, const Area& y) {
  multiply(weights, x, rows, y, 1, [](Range) {});
}

void ForwardPass::finish_head(const std::vector<float>& norm, std::size_t row, std::size_t column) {
  float* const head = qkv_.row(row) + column;
  if (!norm.empty()) {
    kernels::rms_norm_head(head, norm.data(), static_cast<float>(config_.rms_norm_epsilon), config_.head_dim);
  }
  kernels::rope(head, angles_.row(row), config_.head_dim);
}

void ForwardPass::store_and_turn(std::uint32_t layer) {
  const std::size_t dim = config_.head_dim;
  const LlamaLayer& weights = model_.layers()[layer];
  pool_.run([&](unsigned thread) {
    const Range part = part_of(rows_ * config_.kv_heads, thread, pool_.threads());
    for (std::size_t unit = part.begin; unit < part.end; ++unit) {
      const std::size_t row = unit / config_.kv_heads;
      const auto head = static_cast<std::uint32_t>(unit % config_.kv_heads);
      const std::size_t first_query = std::size_t{head} * config_.group() * dim;
      for (std::size_t g = 0; g < config_.group(); ++g) finish_head(weights.query_norm, row, first_query + g * dim);
      finish_head(weights.key_norm, row, config_.query_width() + head * dim);
      const float* const key = qkv_.row(row) + config_.query_width() + head * dim;
      const float* const value = key + config_.kv_width();
      const Row& place = placed_[row];
      cache_.store({.layer = layer, .kv_head = head, .block = place.block, .offset = place.offset}, key, value);
    }
  });
}

void ForwardPass::attend(std::uint32_t layer) {
  const std::size_t dim = config_.head_dim;
  shared_.begin(units_.size(), 1);
  pool_.run([&](unsigned thread) {
    for (Range run; (run = shared_.take(thread)).size() > 0;) {
      const AttentionUnit& unit = units_[run.begin];
      const std::size_t column = std::size_t{unit.kv_head} * config_.group() * dim;
      kernels::attend({.queries = qkv_.row(unit.first_row) + column,
                       .query_stride = qkv_.stride,
                       .out = attention_.row(unit.first_row) + column,
                       .out_stride = attention_.stride,
                       .rows = unit.rows,
                       .group = config_.group(),
                       .head_dim = dim,
                       .first_position = placed_[unit.first_row].position,
                       .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(dim))),
                       .blocks = unit.sequence->blocks.data(),
                       .block_size = cache_.block_size(),
                       .cache = cache_.head(layer, unit.kv_head),
                       .type = cache_.type(),
                       .block_stride = cache_.block_stride(),
                       .scratch = scratch_[thread]});
    }
  });
}

void ForwardPass::query_key_value(const LlamaLayer& layer) {
  if (layer.qkv_bias.empty()) return multiply(layer.qkv, normal_, rows_, qkv_);
  const std::size_t panel = kernels::panel_columns();
  multiply(layer.qkv, normal_, rows_, qkv_, 1, [&](Range panels) {
    for (std::size_t row = 0; row < rows_; ++row) {
      for (std::size_t at = panels.begin * panel; at < panels.end * panel; at += panel) {
        kernels::add_panel(qkv_.row(row) + at, layer.qkv_bias.data() + at);
      }
    }
  });
}

void ForwardPass::gate_and_up(const PackedMatrix& weights) {
  const std::size_t panel = kernels::panel_columns();
  // Pairs of panels, gate and up: the thread that computes a pair multiplies it.
  multiply(weights, normal_, rows_, gate_up_, 2, [&](Range panels) {
    for (std::size_t row = 0; row < rows_; ++row) {
      for (std::size_t at = panels.begin; at < panels.end; at += 2) {
        const float* const gate = gate_up_.row(row) + at * panel;
        kernels::silu_multiply(gate, gate + panel, panel, product_.row(row) + at / 2 * panel);
      }
    }
  });
}

void ForwardPass::output(std::span<const std::uint32_t> logit_rows) {
  pool_.run([&](unsigned thread) {
    const Range part = part_of(logit_rows.size(), thread, pool_.threads());
    for (std::size_t i = part.begin; i < part.end; ++i) {
      const std::size_t row = logit_rows[i];
      kernels::add(residual_.row(row), delta_.row(row), config_.hidden_size);
      kernels::rms_norm(residual_.row(row), model_.final_norm().data(), static_cast<float>(config_.rms_norm_epsilon),
                        config_.hidden_size, selected_.row(i));
    }
  });
  if (!logit_rows.empty()) multiply(model_.output(), selected_, logit_rows.size(), logits_);
}

}  // namespace kvist::engine::cpu
