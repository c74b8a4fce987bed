// The block hashes of a request are those of the workers' events, for each adapter and cache salt, and for no other.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/gateway/prompt_reader.h"
#include "kvist/kv/kv_event_codec.h"
#include "kvist/kv_index/kv_index.h"

namespace kvist::gateway::prompt_identity_test {
namespace {

constexpr std::uint32_t kBlockSize = 4;
constexpr WorkerId kWorker{0};

struct Identity {
  std::string_view adapter;
  std::string_view salt;
};

class PromptIdentityTest : public ::testing::Test {
 protected:
  PromptIdentityTest() {
    fleet_.adapters = std::make_shared<const std::vector<std::string>>(std::vector<std::string>{"a", "b"});
  }
  /// How many leading blocks of the prompt the worker holds under that identity, by the index.
  std::uint32_t held(const Identity& identity, std::string_view prompt) const {
    const std::string salt = identity.salt.empty() ? "" : fmt::format(R"(,"cache_salt":"{}")", identity.salt);
    const auto read = reader_.read(Api::kCompletions,
                                   fmt::format(R"({{"model":"{}","prompt":"{}"{}}})",
                                               identity.adapter.empty() ? "m" : identity.adapter, prompt, salt),
                                   fleet_);
    EXPECT_TRUE(read.has_value());
    std::array<std::uint32_t, 1> depths{};
    index_.match(*read->profile.blocks, depths);
    return depths[0];
  }
  static kv::BlockStored stored(const Identity& identity, std::string_view prompt, std::uint64_t first_name) {
    kv::BlockStored event;
    event.block_size = kBlockSize;
    for (const char c : prompt) event.tokens.emplace_back(static_cast<unsigned char>(c));
    for (std::size_t i = 0; i < prompt.size() / kBlockSize; ++i) event.hashes.emplace_back(first_name + i);
    event.lora_name = identity.adapter;
    event.cache_salt = identity.salt;
    return event;
  }

  PromptReader reader_{"m", kBlockSize};
  FleetReadings fleet_;
  kv_index::KvIndex index_{{.model = "m", .block_size = kBlockSize}};
};

constexpr auto kRecorded =
    std::to_array<Identity>({{"", ""}, {"a", ""}, {"b", ""}, {"", "s"}, {"", "t"}, {"a", "s"}, {"b", "a"}});

TEST_F(PromptIdentityTest, FindsWhatVllmPublishesUnderEachIdentity) {
  std::ifstream in(KVIST_SOURCE_DIR "/tests/golden/kv_events/identities.bin", std::ios::binary);
  std::stringstream bytes;
  bytes << in.rdbuf();
  const std::string payload = bytes.str();
  ASSERT_FALSE(payload.empty());
  const auto decoded = kv::decode_kv_events({reinterpret_cast<const std::uint8_t*>(payload.data()), payload.size()});
  ASSERT_TRUE(decoded);
  ASSERT_EQ(decoded->skipped_events, 0U);
  ASSERT_EQ(decoded->batch.events.size(), 2 * kRecorded.size() + 2);
  // One identity after the other: before its events nothing is found, although the tokens are there for others.
  for (std::size_t i = 0; i < kRecorded.size(); ++i) {
    EXPECT_EQ(held(kRecorded[i], "abcdefghijklm"), 0U) << i;
    EXPECT_FALSE(index_.apply(kWorker, decoded->batch.events[2 * i]));
    EXPECT_FALSE(index_.apply(kWorker, decoded->batch.events[2 * i + 1]));
    EXPECT_EQ(held(kRecorded[i], "abcdefghijklm"), 3U) << i;
  }
  EXPECT_EQ(index_.keys(), 3 * kRecorded.size()) << "no two identities share a block";
  EXPECT_EQ(held({"a", "t"}, "abcdefghijklm"), 0U);
  EXPECT_EQ(held({"b", "s"}, "abcdefghijklm"), 0U);
  // A LoRA that has a number only must not be taken for the model itself.
  EXPECT_EQ(index_.apply(kWorker, decoded->batch.events[2 * kRecorded.size()]), kv_index::Refusal::kExtraKeys);
}

// Names and prompts are few, so that identities often meet in the same tokens, and an adapter is called as a salt is.
TEST_F(PromptIdentityTest, AnyTwoIdentitiesShareNothing) {
  constexpr auto kAdapters = std::to_array<std::string_view>({"", "a", "b"});
  constexpr auto kSalts = std::to_array<std::string_view>({"", "a", "b", "ab"});
  constexpr auto kPrompts =
      std::to_array<std::string_view>({"aaaa", "aaaabbbb", "aaaabbbbcccc", "bbbb", "bbbbaaaacccc"});
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomStream random(seed);
    const auto one_of = [&](const auto& all) {
      return static_cast<std::size_t>(random.uniform_int(0, static_cast<std::int64_t>(all.size()) - 1));
    };
    index_.forget(kWorker);
    std::array<std::array<std::vector<std::string>, kSalts.size()>, kAdapters.size()> model;
    std::uint64_t name = 1;
    for (int step = 0; step < 100; ++step) {
      const std::size_t adapter = one_of(kAdapters);
      const std::size_t salt = one_of(kSalts);
      const std::string_view prompt = kPrompts[one_of(kPrompts)];
      if (random.uniform() < 0.3) {
        EXPECT_FALSE(index_.apply(kWorker, stored({kAdapters[adapter], kSalts[salt]}, prompt, name)));
        name += 10;
        model[adapter][salt].emplace_back(prompt);
      }
      std::size_t expected = 0;
      for (const std::string& known : model[adapter][salt]) {
        const auto [here, there] = std::ranges::mismatch(known, prompt);
        expected = std::max(expected, static_cast<std::size_t>(here - known.begin()) / kBlockSize);
      }
      EXPECT_EQ(held({kAdapters[adapter], kSalts[salt]}, prompt), expected) << step << " " << prompt;
    }
  }
}

}  // namespace
}  // namespace kvist::gateway::prompt_identity_test
