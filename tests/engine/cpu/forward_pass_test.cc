// A row's logits depend on its own sequence alone, to the bit.
#include "kvist/engine/cpu/forward_pass.h"

#include <gmock/gmock.h>

#include <cstring>

#include "engine/cpu/tiny_models.h"
#include "kvist/base/random.h"
#include "kvist/engine/cpu/kernels/kernels.h"

namespace kvist::engine::cpu::forward_pass_test {
namespace {

using Rows = std::vector<std::vector<float>>;

void expect_equal_bits(const Rows& a, const Rows& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].size(), b[i].size());
    EXPECT_EQ(std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)), 0) << what << ", row " << i;
  }
}

class Forward : public testing::TestWithParam<TinyModel> {};
INSTANTIATE_TEST_SUITE_P(, Forward, testing::ValuesIn(tiny_models()),
                         [](const auto& model) { return model.param.name; });

constexpr std::uint32_t kLength = 150;

TEST_P(Forward, ChunksOfAnySizeGiveTheBitsOfTheWholePrompt) {
  const std::vector<TokenId> tokens = prompt(kLength);
  const auto table = Computation::blocks(0, 10);
  Computation computation(GetParam());
  const Rows whole = computation.run(tokens, 0, kLength, table);
  for (const std::uint32_t chunk : {1U, 3U, 16U, 50U, 149U}) {
    for (std::size_t b = 0; b < 10; ++b) {  // what the last run left must not matter
      std::ranges::fill(computation.cache().block(kv::BlockId(static_cast<std::uint32_t>(b))), std::byte{0xff});  // NaN
    }
    Rows rows;
    for (std::uint32_t first = 0; first < kLength; first += chunk) {
      for (auto& row : computation.run(tokens, first, std::min(chunk, kLength - first), table)) rows.push_back(row);
    }
    expect_equal_bits(rows, whole, "chunks of " + std::to_string(chunk));
  }
}

TEST_P(Forward, ThreadsAndBlockSizesAndPlacesDoNotChangeABit) {
  const std::vector<TokenId> tokens = prompt(kLength);
  Computation one(GetParam());
  const Rows expected = one.run(tokens, 0, kLength, Computation::blocks(0, 10));
  for (const unsigned threads : {2U, 3U, 5U}) {
    Computation more(GetParam(), threads);
    std::vector<kv::BlockId> table = Computation::blocks(20, 10);
    std::reverse(table.begin(), table.end());
    expect_equal_bits(more.run(tokens, 0, kLength, table), expected, std::to_string(threads) + " threads");
  }
  for (const std::uint32_t size : {32U, 64U}) {
    Computation larger(GetParam(), 2, size);
    expect_equal_bits(larger.run(tokens, 0, kLength, Computation::blocks(1, 5)), expected,
                      "blocks of " + std::to_string(size));
  }
}

TEST_P(Forward, AContinuationOfAPrefixInTheCacheEqualsTheColdOne) {
  const std::vector<TokenId> tokens = prompt(kLength);
  Computation computation(GetParam(), 2);
  const Rows cold = computation.run(tokens, 0, kLength, Computation::blocks(0, 10));
  // The first six blocks are shared, the rest is computed into blocks of its own.
  std::vector<kv::BlockId> table = Computation::blocks(0, 6);
  for (const kv::BlockId block : Computation::blocks(30, 4)) table.push_back(block);
  const Rows warm = computation.run(tokens, 96, kLength - 96, table);
  expect_equal_bits(warm, Rows(cold.begin() + 96, cold.end()), "after a hit");
}

/// Four sequences, advanced by random amounts in random company, against each of them alone.
TEST_P(Forward, ARowDoesNotDependOnTheBatchItIsIn) {
  constexpr std::uint64_t kSeed = 42;
  RandomStream random(kSeed);
  Computation computation(GetParam(), 2);
  const std::vector<TokenId> text = prompt(600, 89);
  std::vector<std::vector<TokenId>> tokens;
  std::vector<Rows> expected;
  std::vector<std::vector<kv::BlockId>> tables;
  for (std::uint32_t s = 0; s < 4; ++s) {
    const auto length = static_cast<std::ptrdiff_t>(20 + 30 * s);
    tokens.emplace_back(text.begin() + s * 100, text.begin() + s * 100 + length);
    tables.push_back(Computation::blocks(8 * s, 8));
    expected.push_back(computation.run(tokens[s], 0, static_cast<std::uint32_t>(length), tables[s]));
  }
  std::vector<Rows> rows(4);
  for (int step = 0; step < 200; ++step) {
    std::vector<SequenceRows> sequences;
    std::vector<TokenId> batch;
    std::vector<std::uint32_t> owner;
    for (std::uint32_t s = 0; s < 4; ++s) {
      const auto done = static_cast<std::uint32_t>(rows[s].size());
      const auto left = static_cast<std::uint32_t>(tokens[s].size()) - done;
      const auto count =
          std::min(left, static_cast<std::uint32_t>(random.uniform_int(0, random.uniform() < 0.5 ? 1 : 20)));
      if (count == 0) continue;
      sequences.push_back({count, done, tables[s]});
      batch.insert(batch.end(), tokens[s].begin() + done, tokens[s].begin() + done + count);
      owner.insert(owner.end(), count, s);
    }
    std::vector<std::uint32_t> wanted(batch.size());
    std::iota(wanted.begin(), wanted.end(), 0U);
    const Logits logits = computation.forward().run({batch, sequences, wanted});
    for (std::size_t i = 0; i < owner.size(); ++i) {
      rows[owner[i]].emplace_back(logits.row(i).begin(), logits.row(i).end());
    }
  }
  for (std::size_t s = 0; s < 4; ++s) {
    expect_equal_bits(rows[s], expected[s], "seed " + std::to_string(kSeed) + ", sequence " + std::to_string(s));
  }
}

TEST(ForwardPass, GivesLogitsOfTheWantedRowsOnly) {
  Computation computation(tiny_models()[1]);
  const std::vector<TokenId> tokens = prompt(40);
  const auto table = Computation::blocks(0, 3);
  const Rows all = computation.run(tokens, 0, 40, table);
  const SequenceRows sequence{40, 0, table};
  const std::uint32_t wanted[] = {7, 39};
  const Logits logits = computation.forward().run({tokens, {&sequence, 1}, wanted});
  ASSERT_EQ(logits.rows(), 2U);
  EXPECT_TRUE(std::ranges::equal(logits.row(0), all[7]));
  EXPECT_TRUE(std::ranges::equal(logits.row(1), all[39]));
  EXPECT_EQ(computation.forward().run({tokens, {&sequence, 1}, {}}).rows(), 0U);
}

TEST(ForwardPass, InstructionSetsAgreeWithinRounding) {
  const std::vector<TokenId> tokens = prompt(kLength);
  std::optional<Rows> best;
  for (const std::string_view set : kernels::instruction_sets()) {
    ASSERT_TRUE(kernels::choose_instruction_set(set));
    Computation computation(tiny_models()[0]);
    const Rows rows = computation.run(tokens, 0, kLength, Computation::blocks(0, 10));
    if (!best) best = rows;
    for (std::size_t i = 0; i < kLength; ++i) {
      for (std::size_t t = 0; t < rows[i].size(); ++t) ASSERT_NEAR(rows[i][t], (*best)[i][t], 1e-2) << set;
    }
  }
  kernels::choose_instruction_set(kernels::instruction_sets().front());
}

}  // namespace
}  // namespace kvist::engine::cpu::forward_pass_test
