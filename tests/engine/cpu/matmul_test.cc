#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/engine/cpu/bf16.h"
#include "kvist/engine/cpu/kernels/kernels.h"
#include "kvist/engine/cpu/packed_matrix.h"

namespace kvist::engine::cpu::matmul_test {
namespace {

/// Runs a test once per instruction set of this machine; the best one is chosen again afterwards.
class EveryInstructionSet : public testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override { ASSERT_TRUE(kernels::choose_instruction_set(GetParam())); }
  void TearDown() override { kernels::choose_instruction_set(kernels::instruction_sets().front()); }
  /// Without fused multiply-add the baseline rounds twice.
  [[nodiscard]] static bool fuses() { return GetParam() != "SCALAR"; }
};

using Matmul = EveryInstructionSet;
INSTANTIATE_TEST_SUITE_P(, Matmul, testing::ValuesIn(kernels::instruction_sets()),
                         [](const auto& set) { return std::string(set.param); });

std::vector<float> random_numbers(std::size_t n, std::uint64_t seed) {
  RandomStream random(seed);
  std::vector<float> out(n);
  for (float& x : out) x = static_cast<float>(2 * random.uniform() - 1);
  return out;
}

/// A matrix in the file's layout and packed, in one type.
struct Weights {
  Weights(std::size_t n, std::size_t k, DataType type, ThreadPool& pool)
      : columns(n), depth(k), shape{n, k}, numbers(random_numbers(n * k, 7)), packed(n, k, type) {
    for (float& x : numbers) x = float_of_bf16(bf16_of_float(x));  // exact in both types
    packed.place({DataType::kF32, shape, std::as_bytes(std::span(numbers))}, 0, 1, pool);
  }

  std::size_t columns;
  std::size_t depth;
  std::vector<std::uint64_t> shape;
  std::vector<float> numbers;
  PackedMatrix packed;
};

/// The oracle: one chain per result.
float reference(const Weights& weights, const float* x, std::size_t column) {
  float sum = 0;
  for (std::size_t k = 0; k < weights.depth; ++k)
    sum = std::fma(x[k], weights.numbers[column * weights.depth + k], sum);
  return sum;
}

std::vector<float> multiply(const Weights& weights, const float* x, std::size_t rows, ThreadPool& pool) {
  const std::size_t width = kernels::padded(weights.columns);
  std::vector<float> y(rows * width, NAN);
  pool.run([&](unsigned thread) {
    std::vector<float> scratch(kernels::kMatmulScratch);
    const Range part = part_of(weights.packed.panels(), thread, pool.threads());
    kernels::matmul({.weights = weights.packed.data(),
                     .bf16 = weights.packed.type() == DataType::kBf16,
                     .depth = weights.depth,
                     .x = x,
                     .x_stride = weights.depth,
                     .rows = rows,
                     .y = y.data(),
                     .y_stride = width,
                     .first_panel = part.begin,
                     .last_panel = part.end,
                     .scratch = scratch.data()});
  });
  return y;
}

TEST_P(Matmul, IsOneChainOfFusedMultiplyAddsWhateverTheRowsAndThreads) {
  ThreadPool one(1);
  ThreadPool three(3);
  for (const DataType type : {DataType::kF32, DataType::kBf16}) {
    for (const auto& [n, k] : {std::pair<std::size_t, std::size_t>{100, 70}, {33, 600}, {1, 1}, {64, 5300}}) {
      const Weights weights(n, k, type, three);
      const std::vector<float> x = random_numbers(260 * k, 11);
      const std::size_t width = kernels::padded(n);
      const std::vector<float> all = multiply(weights, x.data(), 260, one);
      if (fuses()) {
        for (const std::size_t row : {0U, 1U, 7U, 130U, 259U}) {
          for (std::size_t c = 0; c < n; ++c) {
            ASSERT_EQ(all[row * width + c], reference(weights, &x[row * k], c))
                << n << "x" << k << " at " << row << "," << c;
          }
        }
      }
      for (const std::size_t rows : {1U, 2U, 3U, 5U, 6U, 7U, 8U, 12U, 13U, 16U, 25U, 128U}) {
        const std::vector<float> some = multiply(weights, x.data(), rows, rows % 2 == 0 ? one : three);
        for (std::size_t row = 0; row < rows; ++row) {
          ASSERT_EQ(std::memcmp(&some[row * width], &all[row * width], n * sizeof(float)), 0)
              << "row " << row << " of " << rows << ", " << n << "x" << k;
        }
      }
    }
  }
}

TEST_P(Matmul, PanelsAreFilledUpWithZeros) {
  ThreadPool pool(1);
  const Weights weights(5, 8, DataType::kBf16, pool);
  const std::vector<float> x = random_numbers(8, 3);
  const std::vector<float> y = multiply(weights, x.data(), 1, pool);
  for (std::size_t c = 5; c < kernels::panel_columns() * weights.packed.panels(); ++c) EXPECT_EQ(y[c], 0) << c;
}

TEST_P(Matmul, AMatrixGivesItsRowsBack) {
  ThreadPool pool(2);
  for (const DataType type : {DataType::kF32, DataType::kBf16}) {
    const Weights weights(45, 19, type, pool);
    std::vector<float> row(19);
    for (std::size_t c = 0; c < 45; ++c) {
      weights.packed.row(c, row.data());
      EXPECT_EQ(std::memcmp(row.data(), &weights.numbers[c * 19], 19 * sizeof(float)), 0) << c;
    }
  }
}

TEST_P(Matmul, TwoMatricesAlternateByPanels) {
  ThreadPool pool(2);
  const std::size_t panel = kernels::panel_columns();
  const std::size_t n = panel + 1;
  const std::vector<float> gate = random_numbers(n * 4, 1);
  const std::vector<float> up = random_numbers(n * 4, 2);
  const std::uint64_t shape[] = {n, 4};
  PackedMatrix both(4 * panel, 4, DataType::kF32);
  both.place({DataType::kF32, shape, std::as_bytes(std::span(gate))}, 0, 2, pool);
  both.place({DataType::kF32, shape, std::as_bytes(std::span(up))}, panel, 2, pool);
  std::vector<float> row(4);
  for (std::size_t r = 0; r < n; ++r) {
    both.row(r / panel * 2 * panel + r % panel, row.data());
    EXPECT_EQ(row[3], gate[r * 4 + 3]);
    both.row((r / panel * 2 + 1) * panel + r % panel, row.data());
    EXPECT_EQ(row[3], up[r * 4 + 3]);
  }
}

TEST(Bf16, RoundsToTheNearestEven) {
  EXPECT_EQ(bf16_of_float(1.0F), 0x3f80);
  EXPECT_EQ(bf16_of_float(1.0F + 0x1p-8F), 0x3f80);      // half way: to the even one
  EXPECT_EQ(bf16_of_float(1.0F + 3 * 0x1p-8F), 0x3f82);  // half way: to the even one, above
  EXPECT_EQ(bf16_of_float(1.0F + 0x1p-8F + 0x1p-20F), 0x3f81);
  EXPECT_EQ(bf16_of_float(-0.0F), 0x8000);
  EXPECT_EQ(bf16_of_float(3.4e38F), 0x7f80);
  EXPECT_TRUE(std::isnan(float_of_bf16(bf16_of_float(NAN))));
}

TEST(F16, WidensEveryKindOfNumber) {
  EXPECT_EQ(float_of_f16(0x3c00), 1.0F);
  EXPECT_EQ(float_of_f16(0xc000), -2.0F);
  EXPECT_EQ(float_of_f16(0x0001), 0x1p-24F);
  EXPECT_EQ(float_of_f16(0x03ff), 1023 * 0x1p-24F);
  EXPECT_EQ(float_of_f16(0x7bff), 65504.0F);
  EXPECT_TRUE(std::isinf(float_of_f16(0x7c00)));
  EXPECT_TRUE(std::isnan(float_of_f16(0x7e00)));
  EXPECT_TRUE(std::signbit(float_of_f16(0x8000)));
}

TEST(ThreadPool, EveryThreadWorksOnceInEveryRound) {
  for (const unsigned threads : {1U, 2U, 5U}) {
    ThreadPool pool(threads, threads == 2);
    std::vector<std::size_t> rounds(threads);
    for (std::size_t round = 1; round <= 500; ++round) {
      pool.run([&](unsigned thread) { ++rounds[thread]; });
      for (const std::size_t done : rounds) ASSERT_EQ(done, round);
    }
  }
}

TEST(ThreadPool, PartsCoverEverythingInOrder) {
  for (const std::size_t n : {0U, 1U, 7U, 64U}) {
    std::size_t end = 0;
    for (std::size_t thread = 0; thread < 5; ++thread) {
      const Range part = part_of(n, thread, 5);
      EXPECT_EQ(part.begin, end);
      EXPECT_LE(part.size(), n / 5 + 1);
      end = part.end;
    }
    EXPECT_EQ(end, n);
  }
}

}  // namespace
}  // namespace kvist::engine::cpu::matmul_test
