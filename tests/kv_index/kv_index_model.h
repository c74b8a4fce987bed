// A KV index that is simple enough to be obviously correct, and random histories of workers for it and the real one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/kv/block_hash.h"
#include "kvist/kv_index/kv_index.h"

namespace kvist::kv_index {

inline constexpr std::uint32_t kModelBlockSize = 2;

/// Prefixes as nodes of a tree: node i ends with a block of its own behind its parent's prefix.
class PrefixTree {
 public:
  struct Node {
    std::size_t parent = 0;  // the root has number 0 and no block
    std::vector<TokenId> tokens;
    kv::BlockHash key;
  };

  explicit PrefixTree(std::string model) : model_(std::move(model)) {
    nodes_.push_back(
        {.parent = 0, .tokens = {}, .key = kv::root_hash({.model = model_, .lora = "", .cache_salt = ""})});
  }

  std::size_t add(std::size_t parent) {
    const auto number = static_cast<std::uint32_t>(nodes_.size());
    std::vector<TokenId> tokens{TokenId(number), TokenId(number + 1)};
    const kv::BlockHash key = kv::chain_hash(nodes_[parent].key, tokens);
    nodes_.push_back({.parent = parent, .tokens = std::move(tokens), .key = key});
    return number;
  }

  [[nodiscard]] const Node& operator[](std::size_t node) const { return nodes_[node]; }
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  /// The nodes from the first block to `node`.
  [[nodiscard]] std::vector<std::size_t> path(std::size_t node) const {
    std::vector<std::size_t> result;
    for (; node != 0; node = nodes_[node].parent) result.push_back(node);
    std::ranges::reverse(result);
    return result;
  }
  [[nodiscard]] std::vector<kv::BlockHash> keys(std::size_t node) const {
    std::vector<kv::BlockHash> result;
    for (const std::size_t step : path(node)) result.push_back(nodes_[step].key);
    return result;
  }

 private:
  std::string model_;
  std::vector<Node> nodes_;
};

/// The options of a history.
struct HistoryOptions {
  std::uint32_t workers = 5;
  std::size_t nodes = 120;    ///< different blocks
  bool copies = true;         ///< blocks are stored again under one name or another, and removed in any order
  bool shared_names = false;  ///< all workers use the same names for blocks: their keys
  bool names_alone = false;   ///< events have no tokens; with shared names, and no second name for a block
  double removals = 0.43;     ///< of all steps
  double clears = 0.02;
  std::size_t max_bytes = std::size_t{1} << 30;
};

/// Applies the same random events to the index and to sets of nodes.
class IndexHistory {
 public:
  IndexHistory(std::uint64_t seed, const HistoryOptions& options)
      : options_(options),
        random_(seed),
        index_({.model = "model", .block_size = kModelBlockSize, .max_bytes = options.max_bytes}),
        held_(options.workers) {
    // Chains with branches: a node's parent is one of the last few nodes, or any.
    while (tree_.size() <= options.nodes) {
      const auto last = static_cast<std::int64_t>(tree_.size()) - 1;
      tree_.add(static_cast<std::size_t>(chance(0.9) ? last : random_.uniform_int(0, last)));
      if (chance(0.05)) tree_.add(0);
    }
  }

  void step() {
    const auto worker = static_cast<std::uint32_t>(random_.uniform_int(0, options_.workers - 1));
    const double what = random_.uniform();
    if (what < options_.clears) {
      clear(worker);
    } else if (what < options_.clears + options_.removals) {
      remove(worker);
    } else {
      store(worker);
    }
  }

  void clear(std::uint32_t worker) {
    held_[worker].clear();
    EXPECT_FALSE(index_.apply(WorkerId(worker), kv::AllBlocksCleared{}));
  }

  void remove_everything() {
    for (std::uint32_t worker = 0; worker < options_.workers; ++worker) {
      while (!held_[worker].empty()) remove(worker);
    }
  }

  /// Leading blocks of a path that the worker really holds.
  [[nodiscard]] std::uint32_t depth(std::uint32_t worker, const std::vector<std::size_t>& path) const {
    std::uint32_t result = 0;
    while (result < path.size() && held_[worker].contains(path[result])) ++result;
    return result;
  }
  [[nodiscard]] bool holds(std::uint32_t worker, std::size_t node) const { return held_[worker].contains(node); }
  [[nodiscard]] std::size_t names(std::uint32_t worker) const {
    std::size_t result = 0;
    for (const auto& [node, copies] : held_[worker]) result += copies.size();
    return result;
  }
  [[nodiscard]] std::size_t distinct() const {
    std::set<std::size_t> result;
    for (const auto& nodes : held_) {
      for (const auto& [node, copies] : nodes) result.insert(node);
    }
    return result.size();
  }

  [[nodiscard]] std::size_t random_node() {
    return static_cast<std::size_t>(random_.uniform_int(1, static_cast<std::int64_t>(tree_.size()) - 1));
  }
  [[nodiscard]] KvIndex& index() { return index_; }
  [[nodiscard]] const PrefixTree& tree() const { return tree_; }
  [[nodiscard]] const HistoryOptions& options() const { return options_; }

 private:
  [[nodiscard]] bool chance(double p) { return random_.uniform() < p; }

  // A worker may have two names for one block, as with a salt that its events do not mention.
  [[nodiscard]] std::uint64_t name(std::uint32_t worker, std::size_t node, std::uint64_t variant) const {
    return options_.shared_names ? tree_[node].key.value() : mix_seed({worker, node, variant});
  }

  // Stores as an engine does: the new part of a prompt, behind a block that the worker still has.
  void store(std::uint32_t worker) {
    auto& held = held_[worker];
    const auto path = tree_.path(random_node());
    const std::uint32_t known = depth(worker, path);
    const std::uint32_t from = options_.copies && chance(0.25) ? 0 : known;
    const std::uint64_t variant = options_.copies && chance(0.3) ? 1 : 0;
    kv::BlockStored event;
    event.block_size = kModelBlockSize;
    event.names_are_keys = options_.names_alone;
    if (from > 0) event.parent = kv::ExternalHash(held.at(path[from - 1]).begin()->first);
    for (std::size_t i = from; i < path.size(); ++i) {
      if (!options_.copies && held.contains(path[i])) break;  // it still has some of the end
      const auto& tokens = tree_[path[i]].tokens;
      if (!options_.names_alone) event.tokens.insert(event.tokens.end(), tokens.begin(), tokens.end());
      event.hashes.emplace_back(name(worker, path[i], variant));
      ++held[path[i]][event.hashes.back().value()];
    }
    if (event.hashes.empty()) return;
    const auto refusal = index_.apply(WorkerId(worker), event);
    if (options_.max_bytes >= std::size_t{1} << 30) {
      EXPECT_FALSE(refusal) << to_string(*refusal);
    }
  }

  void remove(std::uint32_t worker) {
    auto& held = held_[worker];
    if (held.empty()) return;
    auto victim = held.lower_bound(random_node());
    if (victim == held.end()) victim = held.begin();
    if (!options_.copies) {
      // Ends are removed before their parents; children have higher numbers.
      for (auto next = std::next(victim); next != held.end(); ++next) {
        if (tree_[next->first].parent == victim->first) victim = next;
      }
    }
    auto name = victim->second.begin();
    std::advance(name, random_.uniform_int(0, static_cast<std::int64_t>(victim->second.size()) - 1));
    kv::BlockRemoved event;
    event.hashes.emplace_back(name->first);
    if (--name->second == 0) victim->second.erase(name);
    if (victim->second.empty()) held.erase(victim);
    EXPECT_FALSE(index_.apply(WorkerId(worker), event));
  }

  HistoryOptions options_;
  RandomStream random_;
  KvIndex index_;
  PrefixTree tree_{"model"};
  // By worker and node: names with their numbers of physical copies.
  std::vector<std::map<std::size_t, std::map<std::uint64_t, std::uint32_t>>> held_;
};

}  // namespace kvist::kv_index
