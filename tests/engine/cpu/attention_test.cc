#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/engine/cpu/bf16.h"
#include "kvist/engine/cpu/kernels/kernels.h"

namespace kvist::engine::cpu::attention_test {
namespace {

class Kernels : public testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override { ASSERT_TRUE(kernels::choose_instruction_set(GetParam())); }
  void TearDown() override { kernels::choose_instruction_set(kernels::instruction_sets().front()); }
};
INSTANTIATE_TEST_SUITE_P(, Kernels, testing::ValuesIn(kernels::instruction_sets()),
                         [](const auto& set) { return std::string(set.param); });

std::vector<float> random_numbers(std::size_t n, std::uint64_t seed) {
  RandomStream random(seed);
  std::vector<float> out(n);
  for (float& x : out) x = static_cast<float>(random.normal(0, 1));
  return out;
}

/// A number as it is kept, and what is read of it.
struct Stored {
  std::vector<std::byte> bytes;
  float number = 0;
};

Stored stored(float x, KvType type) {
  const auto keep = [](auto bits, float number) {
    Stored out{std::vector<std::byte>(sizeof bits), number};
    std::memcpy(out.bytes.data(), &bits, sizeof bits);
    return out;
  };
  if (type == KvType::kF32) return keep(x, x);
  if (type == KvType::kF16) return keep(f16_of_float(x), float_of_f16(f16_of_float(x)));
  return keep(bf16_of_float(x), float_of_bf16(bf16_of_float(x)));
}

/// One sequence of `tokens` in blocks that lie in no order, some of the memory never written.
struct Cache {
  Cache(std::size_t count, std::size_t size, std::size_t dim, KvType its_type = KvType::kBf16)
      : tokens(count),
        block_size(size),
        head_dim(dim),
        type(its_type),
        keys(random_numbers(count * dim, 1)),
        values(random_numbers(count * dim, 2)),
        memory((count / size + 3) * stride() * bytes_of(type), std::byte{0xff}) {  // NaN in every type
    const std::size_t used = (count + size - 1) / size;
    for (std::size_t b = 0; b < used; ++b) blocks.emplace_back(static_cast<std::uint32_t>(used - b));  // 0 is unused
    for (std::size_t t = 0; t < count; ++t) {
      const std::size_t block = blocks[t / size].value() * stride();
      for (std::size_t d = 0; d < dim; ++d) {
        put(block + d * size + t % size, keys[t * dim + d]);
        put(block + dim * size + t % size * dim + d, values[t * dim + d]);
      }
    }
  }
  [[nodiscard]] std::size_t stride() const { return 2 * block_size * head_dim + 32; }

  std::size_t tokens;
  std::size_t block_size;
  std::size_t head_dim;
  KvType type;
  std::vector<float> keys;  // as they are read
  std::vector<float> values;
  std::vector<std::byte> memory;
  std::vector<kv::BlockId> blocks;

 private:
  void put(std::size_t at, float& number) {
    const Stored kept = stored(number, type);
    std::ranges::copy(kept.bytes, memory.begin() + static_cast<std::ptrdiff_t>(at * bytes_of(type)));
    number = kept.number;
  }
};

std::vector<float> attend(const Cache& cache, const std::vector<float>& queries, std::size_t group, std::size_t first,
                          std::size_t rows) {
  const std::size_t width = group * cache.head_dim;
  std::vector<float> out(rows * width, NAN);
  std::vector<float> scratch(kernels::attention_scratch(cache.head_dim, group));
  kernels::attend({.queries = queries.data() + first * width,
                   .query_stride = width,
                   .out = out.data(),
                   .out_stride = width,
                   .rows = rows,
                   .group = group,
                   .head_dim = cache.head_dim,
                   .first_position = first,
                   .scale = 1 / std::sqrt(static_cast<float>(cache.head_dim)),
                   .blocks = cache.blocks.data(),
                   .block_size = cache.block_size,
                   .cache = cache.memory.data(),
                   .type = cache.type,
                   .block_stride = cache.stride(),
                   .scratch = scratch.data()});
  return out;
}

/// The oracle, in double.
std::vector<double> reference(const Cache& cache, const float* query, std::size_t position) {
  std::vector<double> weights(position + 1);
  double total = 0;
  for (std::size_t t = 0; t <= position; ++t) {
    double score = 0;
    for (std::size_t d = 0; d < cache.head_dim; ++d) {
      score += double{query[d]} * double{cache.keys[t * cache.head_dim + d]};
    }
    total += weights[t] = std::exp(score / std::sqrt(static_cast<double>(cache.head_dim)));
  }
  std::vector<double> out(cache.head_dim);
  for (std::size_t t = 0; t <= position; ++t) {
    for (std::size_t d = 0; d < cache.head_dim; ++d) {
      out[d] += weights[t] / total * double{cache.values[t * cache.head_dim + d]};
    }
  }
  return out;
}

constexpr std::array kTypes = {KvType::kBf16, KvType::kF16, KvType::kF32};

void expect_definition(std::size_t tokens, std::size_t block, std::size_t dim, std::size_t group, KvType type) {
  SCOPED_TRACE(std::to_string(tokens) + " tokens in " + std::string(to_string(type)));
  const Cache cache(tokens, block, dim, type);
  const std::vector<float> queries = random_numbers(tokens * group * dim, 3);
  const std::size_t rows = std::min(tokens, kernels::kAttentionRows / group);
  const std::vector<float> out = attend(cache, queries, group, tokens - rows, rows);
  for (std::size_t i = 0; i < rows * group; ++i) {
    const std::size_t position = tokens - rows + i / group;
    const auto expected = reference(cache, &queries[((tokens - rows) * group + i) * dim], position);
    for (std::size_t d = 0; d < dim; ++d) ASSERT_NEAR(out[i * dim + d], expected[d], 2e-6) << i;
  }
}

TEST_P(Kernels, AttentionAgreesWithTheDefinition) {
  for (const KvType type : kTypes) {
    expect_definition(1, 16, 64, 4, type);
    expect_definition(16, 16, 16, 1, type);
    expect_definition(200, 16, 128, 8, type);
    expect_definition(63, 32, 48, 2, type);
    expect_definition(300, 128, 64, 3, type);
    expect_definition(65, 64, 32, 5, type);
  }
}

TEST_P(Kernels, AttentionOfARowDoesNotDependOnTheRowsBesideIt) {
  const std::size_t group = 3;
  for (const KvType type : kTypes) {
    const Cache cache(150, 16, 32, type);
    const std::vector<float> queries = random_numbers(150 * group * 32, 5);
    std::vector<float> alone;
    for (std::size_t position = 0; position < 150; ++position) {
      const std::vector<float> row = attend(cache, queries, group, position, 1);
      alone.insert(alone.end(), row.begin(), row.end());
    }
    for (const std::size_t rows : {2U, 5U, 10U}) {
      for (std::size_t first = 0; first + rows <= 150; first += rows) {
        const std::vector<float> together = attend(cache, queries, group, first, rows);
        ASSERT_EQ(std::memcmp(together.data(), &alone[first * group * 32], together.size() * sizeof(float)), 0)
            << rows << " from " << first << " in " << to_string(type);
      }
    }
  }
}

// All of them, there and back, and what lies between two.
TEST(F16, RoundsToTheNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float number = float_of_f16(half);
    if (std::isnan(number)) {
      EXPECT_TRUE(std::isnan(float_of_f16(f16_of_float(number))));
      continue;
    }
    ASSERT_EQ(f16_of_float(number), half) << bits;
    if ((bits & 0x7fffU) >= 0x7bffU) continue;  // the largest, and infinity
    const float next = float_of_f16(static_cast<std::uint16_t>(bits + 1));
    const float middle = (number + next) / 2;
    ASSERT_EQ(f16_of_float(middle), (bits & 1U) == 0 ? bits : bits + 1) << bits;
    ASSERT_EQ(f16_of_float(std::nextafter(middle, number)), bits) << bits;
    ASSERT_EQ(f16_of_float(std::nextafter(middle, next)), bits + 1) << bits;
  }
  EXPECT_EQ(f16_of_float(65'519.99F), 0x7bff);
  EXPECT_EQ(f16_of_float(65'520.0F), 0x7c00);
  EXPECT_EQ(f16_of_float(-1e30F), 0xfc00);
}

TEST_P(Kernels, RmsNormAgreesWithTheDefinition) {
  for (const std::size_t n : {16U, 64U, 100U, 2048U}) {
    std::vector<float> x = random_numbers(kernels::padded(n), 1);
    std::fill(x.begin() + static_cast<std::ptrdiff_t>(n), x.end(), 0.0F);
    std::vector<float> weight = random_numbers(kernels::padded(n), 2);
    std::vector<float> out(kernels::padded(n), NAN);
    kernels::rms_norm(x.data(), weight.data(), 1e-5F, n, out.data());
    double squares = 0;
    for (const float v : x) squares += double{v} * double{v};
    for (std::size_t i = 0; i < n; ++i) {
      const double expected = x[i] / std::sqrt(squares / static_cast<double>(n) + 1e-5) * weight[i];
      EXPECT_NEAR(out[i], expected, 4e-7 * (1 + std::abs(expected)));
    }
    for (std::size_t i = n; i < out.size(); ++i) EXPECT_EQ(out[i], 0);
  }
}

TEST_P(Kernels, SiluMultiplyAgreesWithTheDefinition) {
  std::vector<float> gate = random_numbers(256, 1);
  const std::vector<float> up = random_numbers(256, 2);
  gate[0] = 100;
  gate[1] = -100;
  gate[2] = -1000;
  gate[3] = 0;
  std::vector<float> out(256, NAN);
  kernels::silu_multiply(gate.data(), up.data(), 256, out.data());
  for (std::size_t i = 0; i < 256; ++i) {
    const double expected = double{gate[i]} / (1 + std::exp(-double{gate[i]})) * double{up[i]};
    EXPECT_NEAR(out[i], expected, 1e-6 * (1e-3 + std::abs(expected))) << gate[i];
  }
}

TEST_P(Kernels, RopeTurnsPairsHalfAHeadApart) {
  for (const std::size_t dim : {16U, 48U, 128U}) {
    const std::vector<float> before = random_numbers(dim, 1);
    std::vector<float> head = before;
    std::vector<float> angles(dim);
    for (std::size_t i = 0; i < dim / 2; ++i) {
      angles[i] = std::cos(static_cast<float>(i));
      angles[dim / 2 + i] = std::sin(static_cast<float>(i));
    }
    kernels::rope(head.data(), angles.data(), dim);
    for (std::size_t i = 0; i < dim / 2; ++i) {
      const float a = before[i];
      const float b = before[dim / 2 + i];
      EXPECT_FLOAT_EQ(head[i], a * angles[i] - b * angles[dim / 2 + i]);
      EXPECT_FLOAT_EQ(head[dim / 2 + i], b * angles[i] + a * angles[dim / 2 + i]);
    }
  }
}

TEST_P(Kernels, AddAddsARow) {
  std::vector<float> x = random_numbers(64, 1);
  const std::vector<float> before = x;
  const std::vector<float> y = random_numbers(64, 2);
  kernels::add(x.data(), y.data(), 40);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(x[i], before[i] + y[i]);
}

}  // namespace
}  // namespace kvist::engine::cpu::attention_test
