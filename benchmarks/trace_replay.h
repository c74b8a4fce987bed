// A trace replayed through engines' KV memory: the events that real workers would publish, and the look-ups before
// them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/base/random.h"
#include "kvist/kv/block_hash.h"
#include "kvist/kv/block_pool.h"
#include "kvist/workload/trace.h"

namespace kvist::replay {

/// The engines that a trace is replayed through.
struct ReplayOptions {
  std::uint32_t workers = 8;
  std::uint32_t blocks_per_worker = 11'500;  ///< of an H200 with the weights of a 70B model
  std::uint32_t block_size = 32;             ///< tokens
  std::uint32_t tokens_per_hash = 512;       ///< prompt tokens that one id of the trace stands for
  std::string model = "model";
};

/// Events of one step of one worker.
struct EventBatch {
  std::uint32_t worker = 0;
  std::vector<kv::KvEvent> events;
};

/// One request: its look-up, then the events of all engines that it caused.
struct ReplayedRequest {
  std::vector<kv::BlockHash> keys;  ///< of the prompt's complete blocks, as an index names them
  std::vector<EventBatch> batches;
};

/// Blocks stored or removed by a batch.
[[nodiscard]] inline std::size_t block_operations(std::span<const kv::KvEvent> events) {
  std::size_t result = 0;
  for (const kv::KvEvent& event : events) {
    if (const auto* stored = std::get_if<kv::BlockStored>(&event)) result += stored->hashes.size();
    if (const auto* removed = std::get_if<kv::BlockRemoved>(&event)) result += removed->hashes.size();
  }
  return result;
}

/// One engine's KV memory: requests reference their blocks, commit computed ones and release them; free blocks are
/// reused in LRU order (kv::BlockPool). Each worker hashes from its own root, as vLLM does by default, so that no two
/// workers have the same hash for a block.
class ReplayEngine {
 public:
  ReplayEngine(const ReplayOptions& options, std::uint32_t worker)
      : block_size_(options.block_size),
        pool_(options.blocks_per_worker, options.block_size),
        root_(kv::root_hash({.model = "worker " + std::to_string(worker), .lora = "", .cache_salt = ""})) {}

  [[nodiscard]] std::size_t running() const { return running_.size(); }
  [[nodiscard]] const kv::BlockPool& pool() const { return pool_; }
  [[nodiscard]] kv::BlockHash root() const { return root_; }

  /// Prefill of a prompt, then one block for each request that decodes here. `tokens`: prompt and answer.
  std::vector<kv::KvEvent> step(std::vector<TokenId> tokens, std::uint32_t prompt_tokens) {
    Sequence sequence{.tokens = std::move(tokens), .names = {}, .blocks = {}, .committed = 0};
    kv::hash_blocks(root_, sequence.tokens, block_size_, sequence.names);
    const std::size_t prompt_blocks = std::min<std::size_t>(prompt_tokens / block_size_, sequence.names.size());
    pool_.find_prefix(std::span(sequence.names).first(prompt_blocks), sequence.blocks);
    for (const kv::BlockId block : sequence.blocks) pool_.acquire(block);
    sequence.committed = sequence.blocks.size();
    if (grow(sequence, prompt_blocks)) {
      commit(sequence, prompt_blocks);
      running_.push_back(std::move(sequence));
    } else {
      release(sequence);  // larger than the worker's memory
    }
    for (std::size_t i = running_.size(); i-- > 0;) decode_block(i);
    std::erase_if(running_, [](const Sequence& s) { return s.blocks.empty(); });
    std::vector<kv::KvEvent> events;
    pool_.take_events(events);
    return events;
  }

 private:
  struct Sequence {
    std::vector<TokenId> tokens;
    std::vector<kv::BlockHash> names;
    std::vector<kv::BlockId> blocks;
    std::size_t committed = 0;
  };

  // If blocks run out, the oldest requests end, as if they had been answered by then.
  bool grow(Sequence& sequence, std::size_t blocks) {
    while (sequence.blocks.size() < blocks) {
      const auto block = pool_.allocate();
      if (block) {
        sequence.blocks.push_back(*block);
        continue;
      }
      const auto oldest =
          std::ranges::find_if(running_, [&](const Sequence& s) { return &s != &sequence && !s.blocks.empty(); });
      if (oldest == running_.end()) return false;
      release(*oldest);
    }
    return true;
  }

  void commit(Sequence& sequence, std::size_t blocks) {
    const std::size_t from = sequence.committed;
    if (from >= blocks) return;
    pool_.commit(std::span(sequence.blocks).subspan(from, blocks - from),
                 std::span(sequence.names).subspan(from, blocks - from),
                 from == 0 ? std::nullopt : std::optional(sequence.names[from - 1]),
                 std::span(sequence.tokens).subspan(from * block_size_, (blocks - from) * block_size_));
    sequence.committed = blocks;
  }

  void decode_block(std::size_t i) {
    Sequence& sequence = running_[i];
    if (sequence.blocks.empty()) return;
    const std::size_t blocks = sequence.committed + 1;
    if (blocks > sequence.names.size() || !grow(sequence, blocks)) return release(sequence);
    commit(sequence, blocks);
  }

  void release(Sequence& sequence) {
    for (std::size_t i = sequence.blocks.size(); i-- > 0;) pool_.release(sequence.blocks[i]);
    sequence.blocks.clear();
  }

  std::uint32_t block_size_;
  kv::BlockPool pool_;
  kv::BlockHash root_;
  std::deque<Sequence> running_;  // oldest first; without blocks: ended
};

/// Replays request after request, each at the worker that last had the end of its prompt, unless that one has more than
/// its share of requests. As with a router, requests with a common prefix stay together and popular prefixes spread.
class TraceReplay {
 public:
  TraceReplay(const workload::Trace& trace, ReplayOptions options) : trace_(trace), options_(std::move(options)) {
    root_ = kv::root_hash({.model = options_.model, .lora = "", .cache_salt = ""});
    for (std::uint32_t i = 0; i < options_.workers; ++i) engines_.emplace_back(options_, i);
  }

  [[nodiscard]] bool done() const { return next_ == trace_.requests.size(); }
  /// Tokens of the next prompt.
  [[nodiscard]] std::vector<TokenId> next_prompt() const {
    std::vector<TokenId> tokens = tokens_of(next_);
    tokens.resize(trace_.requests[next_].input_tokens);
    return tokens;
  }
  [[nodiscard]] const ReplayEngine& engine(std::uint32_t worker) const { return engines_[worker]; }

  ReplayedRequest next() {
    std::vector<TokenId> tokens = tokens_of(next_);
    const workload::TraceRequest& request = trace_.requests[next_++];
    ReplayedRequest result;
    kv::hash_blocks(root_, std::span(tokens).first(request.input_tokens), options_.block_size, result.keys);
    const std::uint32_t worker = choose(request);
    result.batches.push_back(
        {.worker = worker, .events = engines_[worker].step(std::move(tokens), request.input_tokens)});
    return result;
  }

 private:
  // The tokens of prompt and answer. An id always has the same tokens; every answer is unique.
  [[nodiscard]] std::vector<TokenId> tokens_of(std::size_t number) const {
    constexpr std::uint64_t kVocabulary = 128'000;
    const workload::TraceRequest& request = trace_.requests[number];
    std::vector<TokenId> tokens;
    tokens.reserve(request.input_tokens + request.output_tokens);
    std::uint64_t text = 0;
    const auto put = [&](std::uint64_t position) {
      tokens.emplace_back(
          static_cast<std::uint32_t>(((text + position * 0x9E37'79B9'7F4A'7C15ULL) >> 20) % kVocabulary));
    };
    for (std::uint32_t i = 0; i < request.input_tokens; ++i) {
      const std::size_t id = i / options_.tokens_per_hash;
      if (i % options_.tokens_per_hash == 0) {
        text = id < request.hash_ids.size() ? mix_seed({1, request.hash_ids[id]}) : mix_seed({2, number, id});
      }
      put(i % options_.tokens_per_hash);
    }
    text = mix_seed({3, number});
    for (std::uint32_t i = 0; i < request.output_tokens; ++i) put(i);
    return tokens;
  }

  std::uint32_t choose(const workload::TraceRequest& request) {
    std::size_t running = 0;
    for (const ReplayEngine& engine : engines_) running += engine.running();
    std::optional<std::uint32_t> home;
    for (std::size_t i = request.hash_ids.size(); i-- > 0 && !home;) {
      if (const auto known = last_worker_.find(request.hash_ids[i]); known != last_worker_.end()) home = known->second;
    }
    const std::size_t share = running * 3 / (2 * engines_.size()) + 2;
    if (!home || engines_[*home].running() > share) {
      home = turn_++ % options_.workers;
    }
    for (const std::uint64_t id : request.hash_ids) last_worker_[id] = *home;
    return *home;
  }

  const workload::Trace& trace_;
  ReplayOptions options_;
  kv::BlockHash root_;
  std::vector<ReplayEngine> engines_;
  std::unordered_map<std::uint64_t, std::uint32_t> last_worker_;  // by id
  std::uint32_t turn_ = 0;
  std::size_t next_ = 0;
};

}  // namespace kvist::replay
