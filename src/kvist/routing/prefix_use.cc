#include "kvist/routing/prefix_use.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kvist/base/check.h"

namespace kvist::routing {

namespace {

std::span<const kv::BlockHash> first_of(const BlockKeys& prompt, std::size_t blocks) {
  const auto all = view(prompt);
  return all.first(std::min(all.size(), blocks));
}

}  // namespace

bool PrefixUse::Node::add_user(WorkerId worker) {
  ++prompts;
  const auto place = std::ranges::lower_bound(users, worker, {}, &std::pair<WorkerId, std::uint32_t>::first);
  if (place != users.end() && place->first == worker) {
    ++place->second;
    return false;
  }
  users.insert(place, {worker, 1});
  workers.insert(worker);
  return true;
}

bool PrefixUse::Node::remove_user(WorkerId worker) {
  --prompts;
  const auto place = std::ranges::lower_bound(users, worker, {}, &std::pair<WorkerId, std::uint32_t>::first);
  KVIST_CHECK(place != users.end() && place->first == worker, "a prompt is taken back where it was booked");
  if (--place->second > 0) return false;
  users.erase(place);
  workers.erase(worker);
  return true;
}

std::size_t PrefixUse::common(std::span<const kv::BlockHash> a, std::span<const kv::BlockHash> b) {
  static_assert(std::has_unique_object_representations_v<kv::BlockHash>);
  constexpr std::size_t kAtOnce = 32;
  const std::size_t most = std::min(a.size(), b.size());
  if (a.data() == b.data()) return most;
  std::size_t length = 0;
  while (most - length >= kAtOnce &&
         std::memcmp(a.data() + length, b.data() + length, kAtOnce * sizeof(kv::BlockHash)) == 0) {
    length += kAtOnce;
  }
  while (length < most && a[length] == b[length]) ++length;
  return length;
}

void PrefixUse::split(std::unique_ptr<Node>& node, std::size_t at) {
  auto upper = std::make_unique<Node>();
  upper->keys = node->keys;
  upper->begin = node->begin;
  upper->end = node->begin + static_cast<std::uint32_t>(at);
  upper->workers = node->workers;
  upper->users = node->users;
  upper->prompts = node->prompts;
  node->begin = upper->end;
  const kv::BlockHash first = node->edge().front();
  upper->children[first] = std::move(node);
  node = std::move(upper);
}

// Undoes a split whose second branch is gone, so that the tree does not remember every prompt that ever parted there.
void PrefixUse::merge_only_child(Node& node) {
  if (node.children.size() != 1) return;
  kv::BlockHash first;
  node.children.for_each([&](kv::BlockHash hash, const std::unique_ptr<Node>&) { first = hash; });
  std::unique_ptr<Node>& only = *node.children.find(first);
  if (only->users != node.users) return;
  const std::unique_ptr<Node> child = std::move(only);
  node.keys = std::move(child->keys);
  node.end = child->end;
  node.children = std::move(child->children);
}

std::size_t PrefixUse::nodes_below(const Children& children) {
  std::size_t count = 0;
  children.for_each(
      [&](kv::BlockHash, const std::unique_ptr<Node>& child) { count += 1 + nodes_below(child->children); });
  return count;
}

std::uint64_t PrefixUse::add(WorkerId worker, const BlockKeys& prompt, std::size_t length_limit) {
  const auto blocks = first_of(prompt, length_limit);
  std::uint64_t unshared = 0;
  Children* level = &roots_;
  for (std::size_t at = 0; at < blocks.size();) {
    std::unique_ptr<Node>& node = (*level)[blocks[at]];
    if (!node) {
      node = std::make_unique<Node>();
      node->keys = prompt;
      node->begin = static_cast<std::uint32_t>(at);
      node->end = static_cast<std::uint32_t>(blocks.size());
    } else if (const std::size_t length = common(node->edge(), blocks.subspan(at)); length < node->edge().size()) {
      split(node, length);
    }
    const std::size_t length = node->edge().size();
    if (view(prompt).size() < view(node->keys).size()) node->keys = prompt;
    if (node->add_user(worker)) unshared += length;
    at += length;
    level = &node->children;
  }
  return unshared;
}

std::uint64_t PrefixUse::remove(WorkerId worker, const BlockKeys& prompt, std::size_t length_limit) {
  const auto blocks = first_of(prompt, length_limit);
  std::uint64_t unshared = 0;
  Children* level = &roots_;
  Node* parent = nullptr;
  for (std::size_t at = 0; at < blocks.size();) {
    std::unique_ptr<Node>* const found = level->find(blocks[at]);
    KVIST_CHECK(found != nullptr, "a prompt is taken back once");
    Node& node = **found;
    const std::size_t length = node.edge().size();
    if (node.remove_user(worker)) unshared += length;
    if (node.users.empty()) {
      // A child's users are users of its parent, so no other prompt runs through the rest of the path: it is removed
      // with this node.
      unshared += blocks.size() - at - length;
      level->erase(blocks[at]);
      if (parent != nullptr) merge_only_child(*parent);
      return unshared;
    }
    at += length;
    parent = &node;
    level = &node.children;
  }
  if (parent != nullptr) merge_only_child(*parent);
  return unshared;
}

void PrefixUse::match(std::span<const kv::BlockHash> prompt, std::span<std::uint32_t> depths) const {
  std::ranges::fill(depths, 0U);
  std::size_t depth = 0;
  const auto reached = [&](WorkerId worker) {
    if (worker.value() < depths.size()) depths[worker.value()] = static_cast<std::uint32_t>(depth);
  };
  WorkerSet alive;  // the workers that use the first `depth` blocks
  const Children* level = &roots_;
  while (depth < prompt.size()) {
    const std::unique_ptr<Node>* const found = level->find(prompt[depth]);
    if (found == nullptr) break;
    const Node& node = **found;
    if (depth == 0) {
      alive = node.workers;
    } else {
      alive.intersect(node.workers, reached);
    }
    const std::size_t length = common(node.edge(), prompt.subspan(depth));
    depth += length;
    if (length < node.edge().size()) break;
    level = &node.children;
  }
  alive.for_each(reached);
}

PrefixUse::Popularity PrefixUse::deepest_shared(std::span<const kv::BlockHash> prompt, std::uint32_t prompts) const {
  Popularity deepest;
  const Children* level = &roots_;
  std::size_t depth = 0;
  while (depth < prompt.size()) {
    const std::unique_ptr<Node>* const found = level->find(prompt[depth]);
    if (found == nullptr || (*found)->prompts < prompts) break;
    const Node& node = **found;
    const std::size_t length = common(node.edge(), prompt.subspan(depth));
    depth += length;
    deepest = {.blocks = static_cast<std::uint32_t>(depth), .prompts = node.prompts};
    if (length < node.edge().size()) break;
    level = &node.children;
  }
  return deepest;
}

}  // namespace kvist::routing
