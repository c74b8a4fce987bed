#include "kvist/routing/adopted_prefixes.h"

#include <algorithm>

namespace kvist::routing {
namespace {

/// Whether the prompt's blocks from `at` on equal the event's blocks, compared up to the end of the shorter.
bool continues(std::span<const kv::BlockHash> prompt, std::size_t at, const kv::KvEventView& event) {
  const std::size_t told = event.names_are_keys ? event.hashes.size() : event.tokens.size() / event.block_size;
  const std::size_t blocks = std::min(prompt.size() - at, told);
  for (std::size_t i = 0; i < blocks; ++i) {
    const kv::BlockHash block =
        event.names_are_keys
            ? kv::BlockHash(event.hashes[i].value())
            : kv::chain_hash(prompt[at + i - 1], event.tokens.subspan(i * event.block_size, event.block_size));
    if (block != prompt[at + i]) return false;
  }
  return true;
}

}  // namespace

bool AdoptedPrefixes::is_orphan(WorkerId worker, const kv::KvEventView& event) const {
  return event.kind == kv::KvEventView::Kind::kStored && event.parent && !index_->knows(worker, *event.parent) &&
         event.group == 0 && event.medium == kv::Medium::kDevice && !event.other_extra_keys &&
         event.block_size == index_->block_size() &&
         (event.names_are_keys ? !event.hashes.empty() : event.tokens.size() >= event.block_size);
}

std::optional<AdoptedPrefixes::Place> AdoptedPrefixes::adopt(WorkerId worker, const kv::KvEventView& event,
                                                             std::span<const Prompt> prompts) {
  std::size_t tries = kMaxTries;
  const Prompt* found = nullptr;
  std::size_t place = 0;
  for (const Prompt& prompt : prompts) {
    for (std::size_t at = prompt.keys.size(); at-- > 1;) {
      if (tries-- == 0) return std::nullopt;
      if (!continues(prompt.keys, at, event)) continue;
      if (found != nullptr && found->keys[place - 1] != prompt.keys[at - 1]) return std::nullopt;
      found = &prompt;
      place = at;
    }
  }
  if (found == nullptr || !adopt(worker, *event.parent, found->keys.first(place))) return std::nullopt;
  return Place{.request = found->request, .blocks = static_cast<std::uint32_t>(place)};
}

bool AdoptedPrefixes::adopt(WorkerId id, kv::ExternalHash name, std::span<const kv::BlockHash> prefix) {
  Worker& worker = workers_.at(id.value());
  (void)release(id, name);  // the index evicted it, and now the worker stores something behind it again
  if (worker.prefixes.size() >= kMaxPrefixes || worker.blocks + prefix.size() > kMaxBlocks) return false;
  if (!index_->adopt(id, prefix, name)) return false;
  worker.prefixes[name].assign(prefix.begin(), prefix.end());
  worker.blocks += prefix.size();
  return true;
}

bool AdoptedPrefixes::release(WorkerId id, kv::ExternalHash name) {
  Worker& worker = workers_.at(id.value());
  const auto* const prefix = worker.prefixes.find(name);
  if (prefix == nullptr) return false;
  index_->release(id, *prefix);
  worker.blocks -= prefix->size();
  worker.prefixes.erase(name);
  return true;
}

void AdoptedPrefixes::before(WorkerId id, const kv::KvEventView& event) {
  if (event.kind != kv::KvEventView::Kind::kRemoved) return;
  if (prefixes(id) == 0 || event.group != 0 || event.medium != kv::Medium::kDevice) return;
  for (const kv::ExternalHash name : event.hashes) (void)release(id, name);
}

void AdoptedPrefixes::revoke(WorkerId id, kv::ExternalHash name) {
  if (release(id, name)) (void)index_->apply(id, kv::BlockRemoved{.hashes = {name}});
}

}  // namespace kvist::routing
