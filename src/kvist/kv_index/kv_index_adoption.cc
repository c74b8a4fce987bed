// Prefixes that a worker is known to hold though no event said so.
#include "kvist/base/check.h"
#include "kvist/base/random.h"
#include "kvist/kv_index/kv_index_state.h"

namespace kvist::kv_index {
namespace {

// No worker's name for anything, as far as 64 bits can tell.
NameDigest made_up_name(kv::BlockHash key) {
  constexpr std::uint64_t kAdopted = 0x6164'6f70'7465'6421;
  return NameDigest(mix_seed({kAdopted, key.value()}));
}

}  // namespace

bool KvIndex::State::adopt(WorkerId id, std::span<const kv::BlockHash> prefix, kv::ExternalHash last_name) {
  KVIST_CHECK(!prefix.empty(), "a prefix has a last block");
  reclaim();
  KnownWorker& known = worker_at(id);
  IndexedWorker& worker = *known.worker;
  if (worker.names.size() + prefix.size() > options.max_blocks_per_worker) return false;
  make_room(worker, prefix.size());
  room_for_group_ = false;
  room_ = 0;
  HolderTable::Prefix held = holders.root();
  std::size_t done = 0;
  for (; done < prefix.size() && take_room(worker); ++done) {
    const std::size_t left = prefix.size() - done;
    const NameDigest name = left == 1 ? NameDigest(last_name.value()) : made_up_name(prefix[done]);
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
  room_for_group_ = false;
  room_ = 0;
  let_go(*known.worker, prefix.first(prefix.size() - 1));
  economize(*known.worker);
  known.directory = known.worker->names.directory_memory();
}

/// As add_copy(), for a name that was not fetched.
bool KvIndex::State::hold(IndexedWorker& worker, HolderTable::Prefix& prefix, NameDigest name, std::uint64_t key,
                          BlockOutlook outlook) {
  const NameTable::Ahead ahead = NameTable::not_fetched(name);
  if (const BlockRef known = worker.names.find(ahead); known != 0) {
    if (!add_further_copy(worker, ahead, known, key)) return false;
    prefix = holders.behind(known);
    return true;
  }
  if (!holders.add(worker.holder(), prefix, key, outlook)) return false;
  worker.names.insert(ahead, prefix.last);
  return true;
}

/// The deepest first. Those that were evicted meanwhile are gone already.
void KvIndex::State::let_go(IndexedWorker& worker, std::span<const kv::BlockHash> blocks) {
  for (std::size_t i = blocks.size(); i-- > 0;) {
    changes_in_epoch_ += drop_copy(worker, made_up_name(blocks[i])) ? 1 : 0;
  }
}

}  // namespace kvist::kv_index
