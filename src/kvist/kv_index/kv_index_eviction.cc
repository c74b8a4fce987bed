// The byte budget: how many changes fit into it, and which blocks are evicted for more.
#include <algorithm>

#include "kvist/base/check.h"
#include "kvist/kv_index/kv_index_state.h"

namespace kvist::kv_index {
namespace {

// Bytes of a block that one worker holds, at the least load of the tables: 37 for its name, and a seventh of its
// chunk's 128 and of the chunk's 37 in the table of first blocks. Shorter prompts take more; each change is checked for
// that.
constexpr std::size_t kBlockBytes = 61;
// Blocks sampled to estimate the uselessness of the most useless ones.
constexpr std::size_t kSample = 512;
// The part of all blocks that the first round of eviction is to take; each further round takes twice as much.
constexpr double kFirstPart = 1.0 / 16;
constexpr int kRounds = 5;

}  // namespace

std::size_t KvIndex::State::change_bytes(const IndexedWorker& worker) const {
  return holders.growth_bytes(holders_end()) + worker.names.growth_bytes() + worker.further_copies.growth_bytes() +
         worker.further_names.growth_bytes();
}

// How many changes of any kind fit into the budget, whichever tables they make grow.
std::size_t KvIndex::State::changes_within_budget(const IndexedWorker& worker) const {
  return memory.bytes() < options.max_bytes ? (options.max_bytes - memory.bytes()) / change_bytes(worker) : 0;
}

bool KvIndex::State::take_from_scarce_budget(const IndexedWorker& worker) {
  if (changes_left_ == 0 && !find_budget(worker)) return false;
  --changes_left_;
  return true;
}

bool KvIndex::State::find_budget(const IndexedWorker& worker) {
  constexpr std::size_t kAtOnce = 64;
  const std::size_t room = changes_within_budget(worker);
  // Twice, because a table may grow by a step within these changes, after which a change may need more.
  changes_left_ = room >= 2 * kAtOnce ? kAtOnce : std::min(room, std::size_t{1});
  return changes_left_ > 0;
}

// Evicts until `blocks` more blocks fit into the budget.
void KvIndex::State::ensure_budget(const IndexedWorker& worker, std::size_t blocks) {
  if (changes_within_budget(worker) >= 2 * blocks) return;
  epochs.advance();
  holders.reclaim();
  memory.reclaim();
  // Tables grow in steps. So the reserve is what the blocks need in the mean, and one step more than the last check
  // asks for.
  const std::size_t reserve = blocks * kBlockBytes + 2 * change_bytes(worker);
  if (memory.bytes() + reserve <= options.max_bytes) return;
  if (reserve > options.max_bytes) return;
  // Retired memory is freed once the readers leave their epochs, so no block is evicted for it.
  const std::size_t retired = memory.retired_bytes();
  const std::size_t slack = std::max(options.max_bytes / 1024, change_bytes(worker) / 2);
  const std::size_t wanted = options.max_bytes - std::min(reserve + slack, options.max_bytes);
  if (memory.bytes() - retired > wanted) evict(wanted + retired);
}

void KvIndex::State::evict(std::size_t goal_bytes) {
  ++evictions;
  double part = kFirstPart;
  for (int round = 0; round < kRounds && memory.bytes() > goal_bytes; ++round, part = std::min(1.0, part * 2)) {
    const std::uint64_t from = sampled_uselessness(part);
    const std::size_t records = workers_.size() + lower_.size();
    for (std::size_t i = 0; i < records && memory.bytes() > goal_bytes; ++i) {
      if (next_to_shrink_ >= records) next_to_shrink_ = 0;
      const std::size_t next = next_to_shrink_++;
      if (next >= workers_.size()) {
        if (IndexedWorker* const lower = lower_[next - workers_.size()]) evict_from(*lower, from);
        continue;
      }
      KnownWorker& known = workers_[next];
      if (known.worker == nullptr) continue;
      evict_from(*known.worker, from);
      known.directory = known.worker->names.directory_memory();
    }
    if (epochs.has_readers()) {
      epochs.advance();
      holders.reclaim();
      memory.reclaim();
    }
  }
}

// About that part of all blocks is at least as useless as the returned value.
std::uint64_t KvIndex::State::sampled_uselessness(double part) {
  const std::uint16_t now = holders.tick();
  sample_.clear();
  for (std::size_t i = 0; i < kSample; ++i) {
    holders.blocks().visit_near(random_.next(),
                                [&](std::uint64_t key, BlockUse use) { sample_.push_back(use.uselessness(now, key)); });
  }
  if (sample_.empty() || part >= 1) return 0;
  const auto kept = sample_.begin() + static_cast<std::ptrdiff_t>((1 - part) * static_cast<double>(sample_.size()));
  std::ranges::nth_element(sample_, kept);
  return *kept;
}

// Evicts from one worker the blocks of at least that uselessness, one part of its table after the other. Nothing else
// happens in between, so no caller sees a prefix without its beginning.
void KvIndex::State::evict_from(IndexedWorker& worker, std::uint64_t from_uselessness) {
  ++worker.changes;
  const std::uint16_t now = holders.tick();
  std::vector<std::pair<NameDigest, BlockRef>> entries;
  for (std::uint32_t part = 0; part < worker.names.parts(); ++part) {
    entries.clear();
    worker.names.for_each_in(part, [&](NameDigest name, BlockRef block) { entries.emplace_back(name, block); });
    std::erase_if(entries, [&](const auto& entry) {
      const IndexedBlock& block = holders.blocks().block(entry.second);
      return block.use().uselessness(now, block.key()) < from_uselessness;
    });
    dropped_.clear();
    for (const auto& [name, block] : entries) {
      worker.names.erase(name, /*keep_shape=*/true);
      worker.further_copies.erase(name);
      dropped_.push_back(block);
    }
    holders.drop_all(worker.holder(), dropped_);
    counters_of(worker).evicted_blocks += entries.size();
  }
  worker.names.compact();
  count_blocks(worker);
}

}  // namespace kvist::kv_index
