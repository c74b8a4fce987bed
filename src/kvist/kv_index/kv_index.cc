#include "kvist/kv_index/kv_index.h"

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/base/random.h"
#include "kvist/kv_index/kv_index_state.h"

namespace kvist::kv_index {
namespace {

// How many changes end an epoch, at least. Readers' announcements are checked that often.
constexpr std::size_t kChangesPerEpoch = 256;

}  // namespace

NameDigest adopted_name(kv::BlockHash key) {
  constexpr std::uint64_t kAdopted = 0x6164'6f70'7465'6421;
  return NameDigest(mix_seed({kAdopted, key.value()}));
}

std::string_view to_string(Refusal refusal) {
  switch (refusal) {
    case Refusal::kUnknownParent:
      return "unknown_parent";
    case Refusal::kBlockSize:
      return "block_size";
    case Refusal::kExtraKeys:
      return "extra_keys";
    case Refusal::kMedium:
      return "medium";
    case Refusal::kGroup:
      return "group";
    case Refusal::kMalformed:
      return "malformed";
    case Refusal::kConflict:
      return "conflict";
    case Refusal::kCapacity:
      return "capacity";
    case Refusal::kUnknownBlock:
      return "unknown_block";
  }
  return "malformed";
}

KvIndex::State::State(Options index_options)
    : options(std::move(index_options)),
      plain_root_(kv::root_hash({.model = options.model, .lora = "", .cache_salt = ""})) {
  KVIST_CHECK(options.block_size > 0, "a block has at least one token");
}

KvIndex::State::~State() {
  // No reader is left, so memory is freed at once instead of being retired.
  epochs.advance();
  KVIST_CHECK(!epochs.has_readers(), "an index outlives its readers");
  for (const KnownWorker& known : workers_) {
    if (known.worker == nullptr) continue;
    std::destroy_at(known.worker);
    memory.release(known.worker, sizeof(IndexedWorker));
  }
  for (IndexedWorker* const lower : lower_) {
    if (lower == nullptr) continue;
    std::destroy_at(lower);
    memory.release(lower, sizeof(IndexedWorker));
  }
}

KvIndex::State::KnownWorker& KvIndex::State::worker_at(WorkerId id) {
  KVIST_CHECK(id.value() < WorkerSetPool::kMaxWorkers, "worker ids are counted up from 0");
  if (id.value() >= workers_.size()) {
    const std::size_t before = workers_.capacity();
    workers_.resize(id.value() + 1U);
    memory.count(static_cast<std::ptrdiff_t>((workers_.capacity() - before) * sizeof(workers_[0])));
  }
  KnownWorker& known = workers_[id.value()];
  if (known.worker == nullptr) {
    known.worker = new (memory.allocate(sizeof(IndexedWorker))) IndexedWorker(memory, id.value());
  }
  return known;
}

void KvIndex::State::prefetch(WorkerId id) const {
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kMost = 16 * kLine;  // of a larger directory a batch needs only some lines
  if (id.value() >= workers_.size()) return;
  const KnownWorker& known = workers_[id.value()];
  const auto* const worker = reinterpret_cast<const std::byte*>(known.worker);
  for (std::size_t at = 0; at < sizeof(IndexedWorker); at += kLine) __builtin_prefetch(worker + at);
  if (known.directory.size() > kMost) return;
  for (std::size_t at = 0; at < known.directory.size(); at += kLine) __builtin_prefetch(known.directory.data() + at);
}

const IndexedWorker* KvIndex::State::find(WorkerId worker) const {
  return worker.value() < workers_.size() ? workers_[worker.value()].worker : nullptr;
}

void KvIndex::State::clear(WorkerId id) {
  reclaim();
  KnownWorker& known = worker_at(id);
  clear(*known.worker);
  clear_lower(id);
  known.directory = {};
}

void KvIndex::State::forget(WorkerId id) {
  if (find(id) == nullptr) return;
  clear(id);
  worker_at(id).worker->counters = {};
}

void KvIndex::State::clear(IndexedWorker& worker) {
  ++worker.changes;
  ensure_budget(worker, 1);  // for the new sets, which are without the worker
  for (std::uint32_t part = 0; part < worker.names.parts(); ++part) {
    dropped_.clear();
    worker.names.for_each_in(part, [&](NameDigest, BlockRef block) { dropped_.push_back(block); });
    holders.drop_all(worker.holder(), dropped_);
  }
  changes_in_epoch_ += worker.names.size();
  worker.names.clear();
  worker.further_copies.clear();
  worker.further_names.clear();
  count_blocks(worker);
}

// Begins an epoch and reclaims memory once enough has changed in the last one.
void KvIndex::State::reclaim() {
  if (changes_in_epoch_ < kChangesPerEpoch) return;
  changes_in_epoch_ = 0;
  epochs.advance();
  holders.reclaim();
  memory.reclaim();
}

void KvIndex::State::count_blocks(IndexedWorker& worker) {
  memory.count_blocks(static_cast<std::ptrdiff_t>(worker.names.size() - worker.counted));
  worker.counted = worker.names.size();
}

/// Where a block takes too much memory in the mean, makes one segment of two tables smaller with each group of changes.
void KvIndex::State::economize(IndexedWorker& worker) {
  count_blocks(worker);
  if (memory.averages_below()) [[likely]]
    return;
  worker.names.tighten_next();
  holders.tighten_next();
}

KvIndex::KvIndex(Options options) : state_(std::make_unique<State>(std::move(options))) {}
KvIndex::~KvIndex() = default;
KvIndex::KvIndex(KvIndex&&) noexcept = default;
KvIndex& KvIndex::operator=(KvIndex&&) noexcept = default;

std::optional<Refusal> KvIndex::apply(WorkerId worker, const kv::KvEvent& event) {
  return apply(worker, kv::view_of(event));
}

std::optional<Refusal> KvIndex::apply(WorkerId worker, const kv::KvEventView& event) {
  std::optional<Refusal> reason;
  state_->apply(worker, {&event, 1}, &reason);
  return reason;
}

std::size_t KvIndex::apply(WorkerId worker, std::span<const kv::KvEvent> events) {
  state_->views.clear();
  for (const kv::KvEvent& event : events) state_->views.push_back(kv::view_of(event));
  return apply(worker, state_->views);
}

std::size_t KvIndex::apply(WorkerId worker, std::span<const kv::KvEventView> events) {
  return state_->apply(worker, events, nullptr);
}

void KvIndex::prefetch(WorkerId worker) const {
  state_->prefetch(worker);
}

void KvIndex::clear(WorkerId worker) {
  state_->clear(worker);
}

void KvIndex::forget(WorkerId worker) {
  state_->forget(worker);
}

bool KvIndex::knows(WorkerId worker, kv::ExternalHash name) const {
  return state_->find_in_any_tier(worker, NameDigest(name.value())) != 0;
}

bool KvIndex::adopt(WorkerId worker, std::span<const kv::BlockHash> prefix, kv::ExternalHash last_name) {
  return state_->adopt(worker, prefix, last_name);
}

void KvIndex::release(WorkerId worker, std::span<const kv::BlockHash> prefix) {
  state_->release(worker, prefix);
}

namespace {

// `State` is KvIndex::State, whose name is private.
template <PrefixMatcher::Caller kCaller, class State>
std::span<const WorkerMatch> match_in(PrefixMatcher& matcher, const State& state,
                                      std::span<const kv::BlockHash> hashes) {
  const HolderTable& holders = state.holders;
  if (state.lower_from() == 0) {
    const auto matches = matcher.match<kCaller>(holders.blocks(), holders.sets(), holders.tick(), hashes);
    // The first lower tier may have come in the meantime. Its number was published after the mark.
    if (state.lower_from() == 0) return matches;
  }
  return matcher.match_tiers<kCaller>(holders.blocks(), holders.sets(), holders.tick(), hashes, state.lower_from());
}

}  // namespace

std::span<const WorkerMatch> KvIndex::match(std::span<const kv::BlockHash> hashes) const {
  return match_in<PrefixMatcher::Caller::kWriter>(state_->matcher, *state_, hashes);
}

std::span<const LowerTierMatch> KvIndex::lower_tiers() const {
  return state_->matcher.lower_tiers();
}

void KvIndex::match(std::span<const kv::BlockHash> hashes, std::span<std::uint32_t> depths) const {
  std::ranges::fill(depths, 0U);
  for (const WorkerMatch& match : this->match(hashes)) {
    if (match.worker.value() < depths.size()) depths[match.worker.value()] = match.blocks;
  }
}

std::size_t KvIndex::worker_blocks(WorkerId worker, kv::Medium medium) const {
  const IndexedWorker* const found = state_->find_record(worker, medium);
  return found != nullptr ? found->names.size() : 0;
}

std::size_t KvIndex::keys() const {
  return state_->holders.blocks().size();
}

const KvIndexCounters& KvIndex::counters(WorkerId worker) const {
  static const KvIndexCounters kNone;
  const IndexedWorker* const found = state_->find(worker);
  return found != nullptr ? found->counters : kNone;
}

std::uint32_t KvIndex::block_size() const {
  return state_->options.block_size;
}

std::size_t KvIndex::bytes() const {
  return state_->memory.bytes();
}

std::uint64_t KvIndex::evictions() const {
  return state_->evictions;
}

struct KvIndex::Reader::Inside {
  Inside(const State& of, std::shared_ptr<Epochs::Announcement> by) : state(of), announcement(std::move(by)) {}
  ~Inside() { announcement->epoch.store(Epochs::Announcement::kGone, std::memory_order_release); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  const State& state;
  std::shared_ptr<Epochs::Announcement> announcement;
  PrefixMatcher matcher;
};

KvIndex::Reader KvIndex::make_reader() {
  return Reader(std::make_unique<Reader::Inside>(*state_, state_->epochs.add_reader()));
}

KvIndex::Reader::Reader(std::unique_ptr<Inside> inside) : inside_(std::move(inside)) {}
KvIndex::Reader::Reader(Reader&&) noexcept = default;
KvIndex::Reader::~Reader() = default;

std::span<const WorkerMatch> KvIndex::Reader::match(std::span<const kv::BlockHash> hashes) {
  const State& state = inside_->state;
  const Epochs::Pin pin(state.epochs, *inside_->announcement);
  return match_in<PrefixMatcher::Caller::kReader>(inside_->matcher, state, hashes);
}

std::span<const LowerTierMatch> KvIndex::Reader::lower_tiers() const {
  return inside_->matcher.lower_tiers();
}

bool KvIndex::State::adopt(WorkerId id, std::span<const kv::BlockHash> prefix, kv::ExternalHash last_name) {
  KVIST_CHECK(!prefix.empty(), "a prefix has a last block");
  reclaim();
  KnownWorker& known = worker_at(id);
  IndexedWorker& worker = *known.worker;
  ++worker.changes;
  if (worker.names.size() + prefix.size() > options.max_blocks_per_worker) return false;
  ensure_budget(worker, prefix.size());
  group_within_budget_ = false;
  changes_left_ = 0;
  HolderTable::Prefix held = holders.root();
  std::size_t done = 0;
  for (; done < prefix.size() && take_from_budget(worker); ++done) {
    const std::size_t left = prefix.size() - done;
    const NameDigest name = left == 1 ? NameDigest(last_name.value()) : adopted_name(prefix[done]);
    const std::uint64_t key = BlockChains::valid(prefix[done].value());
    if (!hold(worker, held, name, key, {.coming = left, .grows = false})) break;
  }
  holders.keep_time();
  changes_in_epoch_ += done;
  if (done < prefix.size()) let_go(worker, prefix.first(done));
  economize(worker);
  known.directory = worker.names.directory_memory();
  return done == prefix.size();
}

void KvIndex::State::release(WorkerId id, std::span<const kv::BlockHash> prefix) {
  KVIST_CHECK(!prefix.empty(), "a prefix has a last block");
  reclaim();
  KnownWorker& known = worker_at(id);
  ++known.worker->changes;
  group_within_budget_ = false;
  changes_left_ = 0;
  let_go(*known.worker, prefix.first(prefix.size() - 1));
  economize(*known.worker);
  known.directory = known.worker->names.directory_memory();
}

/// As add_copy(), for a name that was not fetched.
bool KvIndex::State::hold(IndexedWorker& worker, HolderTable::Prefix& prefix, NameDigest name, std::uint64_t key,
                          PlacementHint placement) {
  const NameTable::Lookup lookup = NameTable::not_fetched(name);
  if (const BlockRef known = worker.names.find(lookup); known != 0) {
    if (!add_further_copy(worker, lookup, known, key)) return false;
    prefix = holders.behind(known);
    return true;
  }
  if (!holders.add(worker.holder(), prefix, key, placement)) return false;
  worker.names.insert(lookup, prefix.last);
  return true;
}

/// Drops the deepest block first. Blocks that were evicted meanwhile are gone already.
void KvIndex::State::let_go(IndexedWorker& worker, std::span<const kv::BlockHash> blocks) {
  for (std::size_t i = blocks.size(); i-- > 0;) {
    changes_in_epoch_ += drop_copy(worker, adopted_name(blocks[i])) ? 1 : 0;
  }
}

}  // namespace kvist::kv_index
