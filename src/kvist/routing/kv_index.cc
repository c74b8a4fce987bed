#include "kvist/routing/kv_index.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "kvist/base/check.h"
#include "kvist/routing/kv_index_state.h"

namespace kvist::routing {
namespace {

// With readers at work, epochs pass after so many changes: announcements are looked at that often.
constexpr std::size_t kChangesPerEpoch = 256;

}  // namespace

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
  }
  return "malformed";
}

KvIndex::State::State(Options index_options) : options(std::move(index_options)) {
  KVIST_CHECK(options.block_size > 0, "a block has at least one token");
}

KvIndex::State::~State() {
  // Nobody reads any more: what would be retired is freed.
  epochs.advance();
  KVIST_CHECK(!epochs.has_readers(), "an index outlives its readers");
}

IndexedWorker& KvIndex::State::worker_at(WorkerId id) {
  KVIST_CHECK(id.value() < WorkerSetPool::kMaxWorkers, "worker ids are counted up from 0");
  if (id.value() >= workers_.size()) {
    const std::size_t before = workers_.capacity();
    workers_.resize(id.value() + 1U);
    memory.count(static_cast<std::ptrdiff_t>((workers_.capacity() - before) * sizeof(workers_[0])));
  }
  std::unique_ptr<IndexedWorker>& worker = workers_[id.value()];
  if (!worker) {
    worker = std::make_unique<IndexedWorker>(memory, id.value());
    memory.count(sizeof(IndexedWorker));
  }
  return *worker;
}

const IndexedWorker* KvIndex::State::find(WorkerId worker) const {
  return worker.value() < workers_.size() ? workers_[worker.value()].get() : nullptr;
}

std::size_t KvIndex::State::apply(WorkerId id, std::span<const kv::KvEvent> events, std::optional<Refusal>* reason) {
  reclaim();
  room_ = 0;
  IndexedWorker& worker = worker_at(id);
  std::size_t refused = 0;
  holders.begin_worker(worker.holder());
  NamesAhead ahead(worker.names, worker.further_copies, events);
  for (const kv::KvEvent& event : events) {
    const std::optional<Refusal> refusal = apply(worker, event, ahead);
    if (!refusal) [[likely]]
      continue;
    ++refused;
    ++worker.counters.refused[static_cast<std::size_t>(*refusal)];
    if (reason != nullptr) *reason = refusal;
  }
  holders.flush();
  return refused;
}

std::optional<Refusal> KvIndex::State::apply(IndexedWorker& worker, const kv::KvEvent& event, NamesAhead& ahead) {
  if (const auto* stored = std::get_if<kv::BlockStored>(&event)) return store(worker, *stored, ahead);
  if (const auto* removed = std::get_if<kv::BlockRemoved>(&event)) return remove(worker, *removed, ahead);
  clear(worker);
  ++worker.counters.clears;
  return std::nullopt;
}

std::optional<Refusal> KvIndex::State::check(const IndexedWorker& worker, const kv::BlockStored& event,
                                             std::uint64_t parent) const {
  if (event.group != 0) return Refusal::kGroup;
  if (event.medium != kv::Medium::kDevice) return Refusal::kMedium;
  if (event.block_size != options.block_size) return Refusal::kBlockSize;
  if (event.other_extra_keys) return Refusal::kExtraKeys;
  if (event.tokens.size() / event.block_size != event.hashes.size() || event.tokens.size() % event.block_size != 0) {
    return Refusal::kMalformed;
  }
  if (event.parent && parent == 0) return Refusal::kUnknownParent;
  if (worker.names.size() + event.hashes.size() > options.max_blocks_per_worker) return Refusal::kCapacity;
  return std::nullopt;
}

std::optional<Refusal> KvIndex::State::store(IndexedWorker& worker, const kv::BlockStored& event, NamesAhead& ahead) {
  make_room(worker, std::min(event.hashes.size(), options.max_blocks_per_worker));
  const std::uint64_t parent = event.parent ? worker.names.find(NameDigest(event.parent->value())) : 0;
  if (const auto refusal = check(worker, event, parent)) {
    ahead.pass(event.hashes.size());
    return refusal;
  }
  kv::BlockHash key =
      parent != 0 ? kv::BlockHash(parent)
                  : kv::root_hash({.model = options.model, .lora = event.lora_name, .cache_salt = event.cache_salt});
  const std::span<const TokenId> tokens(event.tokens);
  holders.begin_prefix(parent);
  std::size_t stored = 0;
  std::optional<Refusal> refusal;
  for (; stored < event.hashes.size(); ++stored) {
    ahead.pass_one();
    if (!take_room(worker)) {
      refusal = Refusal::kCapacity;
      break;
    }
    key = kv::chain_hash(key, tokens.subspan(stored * options.block_size, options.block_size));
    key = kv::BlockHash(KeyTable::valid(key.value()));
    if (!add_copy(worker, event.hashes[stored], key.value())) {
      refusal = Refusal::kConflict;
      break;
    }
  }
  worker.counters.stored_blocks += stored;
  changes_in_epoch_ += stored;
  if (refusal) ahead.pass(event.hashes.size() - stored - 1);
  return refusal;
}

bool KvIndex::State::add_copy(IndexedWorker& worker, kv::ExternalHash name, std::uint64_t key) {
  const NameDigest digest(name.value());
  const std::uint64_t known = worker.names.insert(digest, key);
  if (known == 0) [[likely]] {
    holders.add(key);
    return true;
  }
  if (known != key) return false;
  const std::uint64_t further = worker.further_copies.insert(digest, 1);
  if (further != 0) worker.further_copies.set(digest, further + 1);
  holders.begin_prefix(key);  // what follows in this event goes on behind it
  return true;
}

std::optional<Refusal> KvIndex::State::remove(IndexedWorker& worker, const kv::BlockRemoved& event, NamesAhead& ahead) {
  if (event.group != 0 || event.medium != kv::Medium::kDevice) {
    ahead.pass(event.hashes.size());
    return event.group != 0 ? Refusal::kGroup : Refusal::kMedium;
  }
  std::size_t unknown = 0;
  for (const kv::ExternalHash name : event.hashes) {
    ahead.pass_one();
    if (!drop_copy(worker, name)) ++unknown;
  }
  worker.counters.unknown_removals += unknown;
  worker.counters.removed_blocks += event.hashes.size() - unknown;
  changes_in_epoch_ += event.hashes.size() - unknown;
  return std::nullopt;
}

bool KvIndex::State::drop_copy(IndexedWorker& worker, kv::ExternalHash name) {
  const NameDigest digest(name.value());
  if (!worker.further_copies.empty()) [[unlikely]] {
    const std::uint64_t further = worker.further_copies.find(digest);
    if (further > 1) worker.further_copies.set(digest, further - 1);
    if (further == 1) worker.further_copies.erase(digest);
    if (further > 0) return true;
  }
  if (!take_room(worker)) make_room(worker, 1);
  const std::uint64_t key = worker.names.erase(digest);
  if (key == 0) return false;
  holders.drop(key);
  return true;
}

void KvIndex::State::clear(WorkerId id) {
  reclaim();
  clear(worker_at(id));
  holders.flush();
}

void KvIndex::State::clear(IndexedWorker& worker) {
  make_room(worker, 1);  // for sets without the worker
  holders.begin_worker(worker.holder());
  for (std::uint32_t part = 0; part < worker.names.parts(); ++part) {
    worker.names.for_each_in(part, [&](NameDigest, std::uint64_t key) { holders.drop(key); });
  }
  holders.flush();
  changes_in_epoch_ += worker.names.size();
  worker.names.clear();
  worker.further_copies.clear();
  worker.further_names.clear();
}

// Readers are waited for in turns: an epoch begins once enough was changed in the last one.
void KvIndex::State::reclaim() {
  if (changes_in_epoch_ < kChangesPerEpoch) return;
  changes_in_epoch_ = 0;
  epochs.advance();
  holders.reclaim();
  memory.reclaim();
}

KvIndex::KvIndex(Options options) : state_(std::make_unique<State>(std::move(options))) {}
KvIndex::~KvIndex() = default;
KvIndex::KvIndex(KvIndex&&) noexcept = default;
KvIndex& KvIndex::operator=(KvIndex&&) noexcept = default;

std::optional<Refusal> KvIndex::apply(WorkerId worker, const kv::KvEvent& event) {
  std::optional<Refusal> reason;
  state_->apply(worker, {&event, 1}, &reason);
  return reason;
}

std::size_t KvIndex::apply(WorkerId worker, std::span<const kv::KvEvent> events) {
  return state_->apply(worker, events, nullptr);
}

void KvIndex::clear(WorkerId worker) {
  state_->clear(worker);
}

std::span<const WorkerMatch> KvIndex::match(std::span<const kv::BlockHash> hashes) const {
  const HolderTable& holders = state_->holders;
  return state_->matcher.match<PrefixMatcher::Caller::kWriter>(holders.keys(), holders.sets(), holders.tick(), hashes);
}

void KvIndex::match(std::span<const kv::BlockHash> hashes, std::span<std::uint32_t> depths) const {
  std::ranges::fill(depths, 0U);
  for (const WorkerMatch& match : this->match(hashes)) {
    if (match.worker.value() < depths.size()) depths[match.worker.value()] = match.blocks;
  }
}

std::size_t KvIndex::worker_blocks(WorkerId worker) const {
  const IndexedWorker* const found = state_->find(worker);
  return found != nullptr ? found->names.size() : 0;
}

std::size_t KvIndex::keys() const {
  return state_->holders.keys().size();
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

KvIndex::Reader KvIndex::make_reader() {
  return {*state_, state_->epochs.add_reader()};
}

KvIndex::Reader::Reader(const State& state, std::shared_ptr<Epochs::Announcement> announcement)
    : state_(&state), announcement_(std::move(announcement)) {}

KvIndex::Reader::~Reader() {
  if (announcement_) announcement_->epoch.store(Epochs::Announcement::kGone, std::memory_order_release);
}

std::span<const WorkerMatch> KvIndex::Reader::match(std::span<const kv::BlockHash> hashes) {
  const Epochs::Pin pin(state_->epochs, *announcement_);
  const HolderTable& holders = state_->holders;
  return matcher_.match<PrefixMatcher::Caller::kReader>(holders.keys(), holders.sets(), holders.tick(), hashes);
}

}  // namespace kvist::routing
