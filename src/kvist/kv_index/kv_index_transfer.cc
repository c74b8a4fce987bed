#include "kvist/kv_index/kv_index_transfer.h"

#include <algorithm>
#include <array>
#include <limits>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/base/flat_map.h"
#include "kvist/base/random.h"
#include "kvist/kv_index/kv_index_state.h"

namespace kvist::kv_index {
namespace {

constexpr std::array kMedia = {kv::Medium::kDevice, kv::Medium::kHost, kv::Medium::kDisk, kv::Medium::kRemote};
/// Of a table of names in one step; each has at most some thousand names.
constexpr std::uint32_t kPartsPerStep = 4;
/// What is written in one step, and how many blocks are looked at for it.
constexpr std::size_t kItemsPerStep = 2'048;
constexpr std::size_t kLooksPerStep = 4 * kItemsPerStep;
/// Half of what a piece may have, because one piece is put into an index in one step.
constexpr std::size_t kItemsPerPiece = BlockPiece::kMostItems / 2;

/// The name under which a block is held until the end of an import although the worker does not hold it.
NameDigest borrowed_name(kv::BlockHash key) {
  constexpr std::uint64_t kBorrowed = 0x626f'7272'6f77'6564;
  return NameDigest(mix_seed({kBorrowed, key.value()}));
}

}  // namespace

struct KvIndex::Export::Inside {
  using Place = Id<struct PlaceTag, BlockRef>;
  struct Node {
    std::uint64_t name = 0;    // bits of a digest; 0: not in device memory
    std::uint32_t number = 0;  // 0: not written yet
  };
  struct Further {
    BlockRef block = 0;
    NameDigest name;
    kv::Medium medium = kv::Medium::kDevice;
    std::uint32_t copies = 0;
  };
  // Many small maps, because a large one would stop all else for as long as it takes to grow.
  static constexpr std::size_t kMaps = 256;

  const State& state;
  WorkerId worker;
  std::uint64_t changes;
  std::size_t medium = 0;  // whose names are read next, from this part on
  std::uint32_t part = 0;
  std::array<FlatMap<Place, Node>, kMaps> nodes = {};
  std::vector<BlockRef> held = {};
  std::vector<Further> further = {};
  std::size_t next_held = 0;
  std::size_t next_further = 0;
  std::vector<BlockRef> path = {};  // to be written from its end on
  std::uint32_t path_parent = 0;
  std::uint32_t written = 0;
  BlockPiece piece = {};  // that is being written

  [[nodiscard]] FlatMap<Place, Node>& map_of(BlockRef block) { return nodes[(block >> 3) % kMaps]; }
  [[nodiscard]] std::uint32_t number_of(BlockRef block) {
    const Node* const node = map_of(block).find(Place(block));
    return node != nullptr ? node->number : 0;
  }

  /// Returns whether there was something to read.
  [[nodiscard]] bool read_names() {
    for (; medium < kMedia.size(); ++medium, part = 0) {
      const IndexedWorker* const record = state.find_record(worker, kMedia[medium]);
      if (record == nullptr || part >= record->names.parts()) continue;
      const std::uint32_t end = std::min(record->names.parts(), part + kPartsPerStep);
      for (; part < end; ++part)
        record->names.for_each_in(part, [&](NameDigest name, BlockRef block) { note(*record, name, block); });
      return true;
    }
    return false;
  }

  void note(const IndexedWorker& record, NameDigest name, BlockRef block) {
    const kv::BlockHash key(state.holders.blocks().block(block).key());
    const bool is_device = kMedia[medium] == kv::Medium::kDevice;
    if (is_device && name.bits() == adopted_name(key).bits()) return;
    const auto [node, is_new] = map_of(block).try_emplace(Place(block));
    if (is_new) held.push_back(block);
    const std::uint32_t beyond_first = record.further_copies.find(name);
    const bool is_first = is_device && node->name == 0;
    if (is_first) node->name = name.bits();
    const std::uint32_t copies = std::min((is_first ? 0U : 1U) + beyond_first, BlockPiece::kMostCopies);
    if (copies > 0) further.push_back({.block = block, .name = name, .medium = kMedia[medium], .copies = copies});
  }

  [[nodiscard]] bool has_runs() const { return !path.empty() || next_held < held.size(); }
  [[nodiscard]] bool has_further() const { return next_further < further.size(); }

  void write_runs() {
    const std::size_t end = std::min(kItemsPerPiece, piece.keys.size() + kItemsPerStep);
    for (std::size_t looks = 0; looks < kLooksPerStep && piece.keys.size() < end; ++looks) {
      if (path.empty() && !find_path()) return;
      if (!path.empty()) write_run(end - piece.keys.size());
    }
  }

  /// The path to the next block, from the first on that is not written. Returns false if there is no next one.
  [[nodiscard]] bool find_path() {
    if (next_held == held.size()) return false;
    const BlockChains& blocks = state.holders.blocks();
    path_parent = 0;
    for (BlockRef block = held[next_held++]; block != 0; block = blocks.parent_of(block)) {
      path_parent = number_of(block);
      if (path_parent != 0) break;
      path.push_back(block);
    }
    return true;
  }

  void write_run(std::size_t most) {
    const std::size_t blocks = std::min(path.size(), most);
    piece.runs.push_back({.parent = path_parent, .blocks = static_cast<std::uint32_t>(blocks)});
    for (std::size_t i = 0; i < blocks; ++i) {
      const BlockRef block = path.back();
      path.pop_back();
      Node& node = *map_of(block).try_emplace(Place(block)).first;
      node.number = ++written;
      piece.keys.emplace_back(state.holders.blocks().block(block).key());
      piece.names.push_back(node.name == 0 ? kNoName : kv::ExternalHash(NameDigest::of_bits(node.name).name()));
    }
    path_parent = written;
  }

  void write_further() {
    const std::size_t end = std::min(kItemsPerPiece, piece.further.size() + kItemsPerStep);
    for (; has_further() && piece.further.size() < end; ++next_further) {
      const Further& name = further[next_further];
      piece.further.push_back({.block = number_of(name.block),
                               .name = kv::ExternalHash(name.name.name()),
                               .medium = name.medium,
                               .copies = name.copies});
    }
  }
};

KvIndex::Export::Export(const KvIndex& index, WorkerId worker)
    : inside_(std::make_unique<Inside>(
          Inside{.state = *index.state_, .worker = worker, .changes = index.state_->changes(worker)})) {}
KvIndex::Export::~Export() = default;
KvIndex::Export::Export(Export&&) noexcept = default;

KvIndex::Export::Step KvIndex::Export::step(BlockPiece& piece) {
  piece = {};
  if (inside_->state.changes(inside_->worker) != inside_->changes) return Step::kChanged;
  if (inside_->read_names()) return Step::kGoesOn;
  Inside& inside = *inside_;
  if (inside.has_runs())
    inside.write_runs();
  else
    inside.write_further();
  const bool is_full = std::max(inside.piece.keys.size(), inside.piece.further.size()) == kItemsPerPiece;
  const bool is_last = !inside.has_runs() && !inside.has_further();
  if (is_full || is_last) piece = std::exchange(inside.piece, {});
  return is_last && piece.empty() ? Step::kDone : Step::kGoesOn;
}

std::uint32_t KvIndex::Export::blocks() const {
  return inside_->written;
}

struct KvIndex::Import::Inside {
  State& state;
  WorkerId worker;
  std::vector<NameDigest> blocks = {};    // by number - 1: a name under which each is held
  std::vector<NameDigest> borrowed = {};  // those names that are not the worker's
  std::size_t left_out = 0;

  [[nodiscard]] std::optional<Refusal> add_run(std::uint32_t parent, std::span<const kv::BlockHash> keys,
                                               std::span<const kv::ExternalHash> names) {
    if (keys.empty() || parent > blocks.size()) return Refusal::kMalformed;
    const std::size_t first = blocks.size();
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const bool is_held = names[i] != kNoName;
      blocks.push_back(is_held ? NameDigest(names[i].value()) : borrowed_name(keys[i]));
      if (!is_held) borrowed.push_back(blocks.back());
    }
    std::optional<NameDigest> behind;
    if (parent > 0) behind = blocks[parent - 1];
    const auto refused = state.put_run(worker, behind, keys, std::span(blocks).subspan(first));
    if (refused != Refusal::kUnknownParent) return refused;
    left_out += keys.size();
    return std::nullopt;
  }

  [[nodiscard]] std::optional<Refusal> add_name(const BlockPiece::FurtherName& further) {
    const bool is_sound = further.block >= 1 && further.block <= blocks.size() && further.copies >= 1 &&
                          further.copies <= BlockPiece::kMostCopies && further.medium <= kv::Medium::kRemote;
    if (!is_sound) return Refusal::kMalformed;
    const auto refused = state.put_name(worker, blocks[further.block - 1], further);
    if (refused != Refusal::kUnknownBlock) return refused;
    ++left_out;
    return std::nullopt;
  }
};

KvIndex::Import::Import(KvIndex& index, WorkerId worker)
    : inside_(std::make_unique<Inside>(Inside{.state = *index.state_, .worker = worker})) {}
KvIndex::Import::Import(Import&&) noexcept = default;
KvIndex::Import::~Import() {
  if (inside_) finish();
}

std::optional<Refusal> KvIndex::Import::add(const BlockPiece& piece) {
  if (piece.keys.size() != piece.names.size()) return Refusal::kMalformed;
  std::size_t at = 0;
  for (const BlockPiece::Run& run : piece.runs) {
    if (run.blocks > piece.keys.size() - at) return Refusal::kMalformed;
    const auto refused = inside_->add_run(run.parent, std::span(piece.keys).subspan(at, run.blocks),
                                          std::span(piece.names).subspan(at, run.blocks));
    if (refused) return refused;
    at += run.blocks;
  }
  if (at != piece.keys.size()) return Refusal::kMalformed;
  for (const BlockPiece::FurtherName& further : piece.further)
    if (const auto refused = inside_->add_name(further)) return refused;
  return std::nullopt;
}

void KvIndex::Import::finish() {
  // The deepest first, so that what nothing holds any more goes at once.
  std::ranges::reverse(inside_->borrowed);
  inside_->state.drop_names(inside_->worker, std::exchange(inside_->borrowed, {}));
}

std::size_t KvIndex::Import::left_out() const {
  return inside_->left_out;
}

std::uint64_t KvIndex::State::changes(WorkerId id) const {
  std::uint64_t changes = 0;
  for (const kv::Medium medium : kMedia)
    if (const IndexedWorker* const record = find_record(id, medium)) changes += record->changes;
  return changes;
}

std::optional<Refusal> KvIndex::State::put_run(WorkerId id, std::optional<NameDigest> parent,
                                               std::span<const kv::BlockHash> keys, std::span<const NameDigest> names) {
  reclaim();
  KnownWorker& known = worker_at(id);
  IndexedWorker& worker = *known.worker;
  if (worker.names.size() + keys.size() > options.max_blocks_per_worker) return Refusal::kCapacity;
  begin_single_changes(worker, keys.size());
  HolderTable::Prefix prefix = holders.root();
  if (parent) {
    const BlockRef last = worker.names.find(*parent);
    if (last == 0) return Refusal::kUnknownParent;
    prefix = holders.behind(last);
  }
  std::optional<Refusal> refused;
  std::size_t done = 0;
  for (; done < keys.size() && !refused; ++done) {
    const std::uint64_t key = BlockChains::valid(keys[done].value());
    if (!take_from_budget(worker))
      refused = Refusal::kCapacity;
    else if (!hold(worker, prefix, names[done], key, {.coming = keys.size() - done, .grows = false}))
      refused = Refusal::kConflict;
  }
  ++worker.changes;
  changes_in_epoch_ += done;
  holders.keep_time();
  economize(worker);
  known.directory = worker.names.directory_memory();
  return refused;
}

std::optional<Refusal> KvIndex::State::put_name(WorkerId id, NameDigest of, const BlockPiece::FurtherName& further) {
  const bool is_lower = further.medium != kv::Medium::kDevice;
  if (is_lower && id.value() >= options.workers) return Refusal::kMedium;
  reclaim();
  KnownWorker& known = worker_at(id);
  IndexedWorker& record = is_lower ? lower_at(id, further.medium) : *known.worker;
  if (record.names.size() >= options.max_blocks_per_worker) return Refusal::kCapacity;
  begin_single_changes(record, 1);
  const BlockRef block = known.worker->names.find(of);
  if (block == 0) return Refusal::kUnknownBlock;
  if (!take_from_budget(record)) return Refusal::kCapacity;
  const NameTable::Lookup name = NameTable::not_fetched(NameDigest(further.name.value()));
  std::uint32_t beyond_first = further.copies;
  if (const BlockRef named = record.names.find(name); named == 0) {
    holders.add_known(record.holder(), block);
    record.names.insert(name, block);
    --beyond_first;
  } else if (named != block) {
    return Refusal::kConflict;
  }
  if (beyond_first > 0) {
    const NameTable::Lookup copies = NameTable::not_fetched(name);
    const std::uint32_t before = record.further_copies.insert(copies, beyond_first);
    if (before > 0) record.further_copies.set(copies, std::min(before + beyond_first, BlockPiece::kMostCopies));
  }
  ++record.changes;
  ++changes_in_epoch_;
  holders.keep_time();
  economize(record);
  known.directory = known.worker->names.directory_memory();
  return std::nullopt;
}

void KvIndex::State::drop_names(WorkerId id, std::span<const NameDigest> names) {
  if (names.empty()) return;
  reclaim();
  KnownWorker& known = worker_at(id);
  IndexedWorker& worker = *known.worker;
  group_within_budget_ = false;
  changes_left_ = 0;
  for (const NameDigest name : names) changes_in_epoch_ += drop_copy(worker, name) ? 1 : 0;
  ++worker.changes;
  economize(worker);
  known.directory = worker.names.directory_memory();
}

}  // namespace kvist::kv_index
