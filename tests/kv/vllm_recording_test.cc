// A recorded run of a real vLLM (tests/golden/vllm/kv_events.txt), batch by batch: nothing is skipped, and the final
// content equals that of an independent reader of the same bytes.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "kvist/kv/kv_event_codec.h"

namespace kvist::kv::vllm_recording_test {
namespace {

struct Counts {
  std::size_t stored = 0;
  std::size_t removed = 0;
  std::size_t cleared = 0;
  std::size_t with_extra_keys = 0;
  std::size_t held = 0;
  friend bool operator==(const Counts&, const Counts&) = default;
};

std::ostream& operator<<(std::ostream& out, const Counts& counts) {
  return out << "stored " << counts.stored << " removed " << counts.removed << " cleared " << counts.cleared
             << " with_extra_keys " << counts.with_extra_keys << " held " << counts.held;
}

/// An action, the batches that it caused, and the recorder's content afterwards.
struct Phase {
  struct Batch {
    std::uint64_t number = 0;
    std::vector<std::uint8_t> payload;
  };
  std::string what;
  std::vector<Batch> batches;
  Counts counts;
  std::size_t with_session = 0;
};

std::vector<std::uint8_t> bytes_of(const std::string& hexadecimal) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 1 < hexadecimal.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoul(hexadecimal.substr(i, 2), nullptr, 16)));
  return bytes;
}

void read_counts(const std::string& line, Phase& phase) {
  std::istringstream words(line.substr(2));
  std::map<std::string, std::size_t> values;
  std::string name;
  for (std::size_t value = 0; words >> name >> value;) values[name] = value;
  phase.counts = {values.at("stored"), values.at("removed"), values.at("cleared"), values.at("with_extra_keys"),
                  values.at("held")};
  phase.with_session = values.at("with_session");
}

std::vector<Phase> recording() {
  std::ifstream file(KVIST_SOURCE_DIR "/tests/golden/vllm/kv_events.txt");
  EXPECT_TRUE(file.is_open());
  std::vector<Phase> phases(1);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("# ")) {
      phases.back().what = line.substr(2);
    } else if (line.starts_with("= ")) {
      read_counts(line, phases.back());
      phases.emplace_back();
    } else {
      const std::size_t space = line.find(' ');
      phases.back().batches.push_back({std::stoull(line.substr(0, space)), bytes_of(line.substr(space + 1))});
    }
  }
  phases.pop_back();
  return phases;
}

/// The names of the blocks held, with their numbers of copies, over the phases of one run of the worker.
class Held {
 public:
  void operator()(const BlockStored& event) {
    ++counts_.stored;
    counts_.with_extra_keys += !event.cache_salt.empty() || event.other_extra_keys ? 1 : 0;
    EXPECT_EQ(event.tokens.size(), event.hashes.size() * event.block_size);
    EXPECT_TRUE(!event.parent || copies_.contains(*event.parent)) << "under a parent that is not there";
    for (const ExternalHash hash : event.hashes) ++copies_[hash];
  }
  void operator()(const BlockRemoved& event) {
    ++counts_.removed;
    for (const ExternalHash hash : event.hashes) {
      ASSERT_TRUE(copies_.contains(hash)) << "removed what was not stored";
      if (--copies_[hash] == 0) copies_.erase(hash);
    }
  }
  void operator()(const AllBlocksCleared&) {
    ++counts_.cleared;
    copies_.clear();
  }
  /// The counts of the events since the last call, and the blocks held now.
  Counts take() {
    Counts counts = std::exchange(counts_, {});
    counts.held = copies_.size();
    return counts;
  }

 private:
  std::map<ExternalHash, std::size_t> copies_;
  Counts counts_;
};

TEST(VllmRecording, EveryBatchIsReadAndAddsUp) {
  const std::vector<Phase> phases = recording();
  ASSERT_GE(phases.size(), 8U);
  std::optional<Held> held;
  std::uint64_t expected = 0;
  Counts all;
  for (const Phase& phase : phases) {
    for (const Phase::Batch& batch : phase.batches) {
      if (batch.number == 0) held.emplace(), expected = 0;  // another run of the worker
      ASSERT_EQ(batch.number, expected++) << phase.what;
      const auto decoded = decode_kv_events(batch.payload);
      ASSERT_TRUE(decoded.has_value()) << phase.what << ": " << decoded.error().message;
      EXPECT_EQ(decoded->skipped_events, 0U) << phase.what << ": " << decoded->first_problem;
      for (const KvEvent& event : decoded->batch.events) std::visit(*held, event);
    }
    const Counts counts = held->take();
    EXPECT_EQ(counts, phase.counts) << phase.what;
    all = {all.stored + counts.stored, all.removed + counts.removed, all.cleared + counts.cleared,
           all.with_extra_keys + counts.with_extra_keys, 0};
  }
  // The recording covers every kind of event.
  EXPECT_GT(all.stored, 0U);
  EXPECT_GT(all.removed, 0U);
  EXPECT_GT(all.cleared, 0U);
  EXPECT_GT(all.with_extra_keys, 0U);
}

TEST(VllmRecording, ASessionIsTheOnlyFieldNotUsed) {
  for (const Phase& phase : recording()) {
    std::size_t unknown = 0;
    for (const Phase::Batch& batch : phase.batches) {
      const auto decoded = decode_kv_events(batch.payload);
      ASSERT_TRUE(decoded.has_value());
      for (const auto& [name, count] : decoded->unknown_fields.counts()) {
        EXPECT_EQ(name, "session_id") << phase.what;
        unknown += count;
      }
    }
    EXPECT_EQ(unknown, phase.with_session) << phase.what;
  }
}

}  // namespace
}  // namespace kvist::kv::vllm_recording_test
