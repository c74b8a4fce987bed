#include "kvist/routing/prefix_use.h"

#include <algorithm>
#include <array>
#include <cstddef>
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
  upper->waiting = node->waiting;
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

std::uint64_t PrefixUse::add_waiting(WorkerId worker, const BlockKeys& prompt) {
  const std::uint64_t unshared = add(worker, prompt);
  for_each_node(prompt, [](Node& node) { ++node.waiting; });
  return unshared;
}

void PrefixUse::end_wait(const BlockKeys& prompt) {
  for_each_node(prompt, [](Node& node) { --node.waiting; });
}

// Requires: the prompt is booked, so that each node on its way is a part of it.
template <class Visit>
void PrefixUse::for_each_node(const BlockKeys& prompt, Visit visit) {
  const auto blocks = view(prompt);
  Children* level = &roots_;
  for (std::size_t at = 0; at < blocks.size();) {
    std::unique_ptr<Node>* const found = level->find(blocks[at]);
    KVIST_CHECK(found != nullptr, "the prompt is booked");
    visit(**found);
    at += (*found)->edge().size();
    level = &(*found)->children;
  }
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

/// A look-up that can be interrupted wherever it would wait for memory.
class PrefixUse::Walk {
 public:
  /// Begins another look-up. Requires: the last one has ended.
  void begin(std::span<const kv::BlockHash> prompt, const LookUp& look_up) {
    prompt_ = prompt;
    depths_ = look_up.depths;
    level_ = &look_up.prefixes->roots_;
    depth_ = 0;
    alive_ = nullptr;
    next_ = Next::kChild;
    std::ranges::fill(depths_, 0U);
    if (!prompt.empty()) level_->prefetch(prompt.front());
  }
  /// Goes on to the next place where it waits. Returns whether there is one.
  bool go_on() {
    switch (next_) {
      case Next::kChild:
        return find_child();
      case Next::kNode:
        __builtin_prefetch(node_->keys.get());
        node_->workers.prefetch();
        next_ = Next::kKeys;
        return true;
      case Next::kKeys:
        __builtin_prefetch(node_->edge().data());
        node_->workers.prefetch_words();
        next_ = Next::kEdge;
        return true;
      case Next::kEdge:
        return follow_edge();
    }
    return false;
  }

 private:
  enum class Next : std::uint8_t { kChild, kNode, kKeys, kEdge };

  bool find_child() {
    const std::unique_ptr<Node>* const found = depth_ < prompt_.size() ? level_->find(prompt_[depth_]) : nullptr;
    if (found == nullptr) return end();
    node_ = found->get();
    constexpr std::size_t kLine = 64;
    for (std::size_t at = 0; at < sizeof(Node); at += kLine)
      __builtin_prefetch(reinterpret_cast<const std::byte*>(node_) + at);
    next_ = Next::kNode;
    return true;
  }
  bool follow_edge() {
    if (alive_ == nullptr) {
      alive_ = &node_->workers;
    } else {
      if (alive_ != &kept_) kept_ = *alive_;
      alive_ = &kept_;
      kept_.intersect(node_->workers, [this](WorkerId worker) { reached(worker); });
    }
    const std::size_t length = common(node_->edge(), prompt_.subspan(depth_));
    depth_ += length;
    if (length < node_->edge().size() || depth_ == prompt_.size()) return end();
    level_ = &node_->children;
    level_->prefetch(prompt_[depth_]);
    next_ = Next::kChild;
    return true;
  }
  bool end() {
    if (alive_ != nullptr) alive_->for_each([this](WorkerId worker) { reached(worker); });
    return false;
  }
  void reached(WorkerId worker) {
    if (worker.value() < depths_.size()) depths_[worker.value()] = static_cast<std::uint32_t>(depth_);
  }

  std::span<const kv::BlockHash> prompt_;
  std::span<std::uint32_t> depths_;
  const Children* level_ = nullptr;
  const Node* node_ = nullptr;
  std::size_t depth_ = 0;             // of the blocks compared so far
  const WorkerSet* alive_ = nullptr;  // the workers that use these; a node's own set at first
  WorkerSet kept_;
  Next next_ = Next::kChild;
};

void PrefixUse::match(std::span<const kv::BlockHash> prompt, std::span<const LookUp> look_ups) {
  KVIST_CHECK(look_ups.size() <= kMostLookUps, "no more look-ups than there are walks");
  std::array<Walk, kMostLookUps> walks;
  std::array<std::size_t, kMostLookUps> under_way = {};
  for (std::size_t i = 0; i < look_ups.size(); ++i) walks[under_way[i] = i].begin(prompt, look_ups[i]);
  for (std::size_t count = look_ups.size(); count > 0;) {
    std::size_t left = 0;
    for (std::size_t i = 0; i < count; ++i)
      if (walks[under_way[i]].go_on()) under_way[left++] = under_way[i];
    count = left;
  }
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
    deepest = {.blocks = static_cast<std::uint32_t>(depth), .prompts = node.prompts, .waiting = node.waiting};
    if (length < node.edge().size()) break;
    level = &node.children;
  }
  return deepest;
}

}  // namespace kvist::routing
