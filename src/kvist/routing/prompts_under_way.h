// Which prompts are under way at which worker, for placing blocks whose parent no event named.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/slot_table.h"
#include "kvist/kv/kv_event.h"
#include "kvist/routing/prefix_use.h"

namespace kvist::routing {

/// What the owner of the index must know of requests to place blocks behind a parent that no event named
/// (AdoptedPrefixes). Routing writes a prompt down before its request leaves for the worker, so it is here before any
/// event of it. Each prompt may place a parent once. The request's answer shows whether the place was right, and may
/// come before or after.
///
/// Threads: if routing and the index's owner are two threads, a gate per worker (made by Router::Options::make_gate)
/// excludes one while the other searches by handle or copies that worker's prompts. A copy is made only if an event has
/// no known parent. Bounded by the requests under way.
class PromptsUnderWay {
 public:
  struct Prompt {
    RequestId request;
    BlockKeys keys;
  };
  /// Lets one thread in at a time.
  class Gate {
   public:
    Gate() = default;
    virtual ~Gate() = default;
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;
    virtual void enter() = 0;
    virtual void leave() = 0;
  };
  using MakeGate = std::function<std::unique_ptr<Gate>()>;

 private:
  struct Entry {
    Prompt prompt;
    std::optional<std::uint64_t> cached_blocks = {};  // as the answer reports
    std::optional<kv::ExternalHash> placed = {};      // the parent that this prompt placed
    std::uint32_t placed_blocks = 0;                  // how many blocks of the prompt lead to it
    /// The first block that a request stores is the one behind what it found cached.
    [[nodiscard]] bool contradicted() const { return placed && cached_blocks && *cached_blocks != placed_blocks; }
  };

 public:
  using Handle = SlotHandle<Entry>;

  /// Without `make_gate` there are no gates, so one thread must make all calls.
  explicit PromptsUnderWay(std::size_t workers, const MakeGate& make_gate = nullptr);

  // For routing.
  [[nodiscard]] Handle add(WorkerId worker, Prompt prompt);
  /// The answer reports its prompt's cached blocks. Returns the parent that the prompt placed wrongly, to be taken
  /// back.
  [[nodiscard]] std::optional<kv::ExternalHash> on_usage(WorkerId worker, Handle prompt, std::uint64_t cached_blocks);
  void remove(WorkerId worker, Handle prompt);

  // For the owner of the index.
  /// The prompts that have placed no parent yet, in the order of their requests.
  [[nodiscard]] std::vector<Prompt> unplaced(WorkerId worker);
  /// This prompt placed a parent, so many blocks deep. Returns true if the answer has already contradicted the place.
  [[nodiscard]] bool on_placed(WorkerId worker, RequestId request, kv::ExternalHash parent, std::uint32_t blocks);

 private:
  struct Worker {
    std::unique_ptr<Gate> gate;  // null: one thread
    SlotTable<Entry> entries;
  };
  class Inside;
  std::vector<Worker> workers_;  // by WorkerId
};

}  // namespace kvist::routing
