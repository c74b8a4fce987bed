#include "kvist/routing/prefix_use.h"

#include <algorithm>

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
  std::size_t low = 0;
  std::size_t high = std::min(a.size(), b.size());
  while (low < high) {
    const std::size_t middle = (low + high + 1) / 2;
    if (a[middle - 1] == b[middle - 1]) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
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
      return unshared;
    }
    at += length;
    level = &node.children;
  }
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
