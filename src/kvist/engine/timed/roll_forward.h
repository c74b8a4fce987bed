// When a request would get its first token if nothing came after it: an engine's rules, rolled forward.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/engine/core.h"
#include "kvist/engine/timed/engine_driver.h"
#include "kvist/engine/timed/rolled_decodes.h"
#include "kvist/engine/timed/rolled_memory.h"
#include "kvist/perfmodel/step_time_model.h"

namespace kvist::engine {

/// A request on its way to the worker.
struct Incoming {
  const Request* request = nullptr;  ///< its prompt may be missing if `block_hashes` are given
  std::uint32_t prompt_tokens = 0;
  std::span<const kv::BlockHash> block_hashes = {};  ///< of the prompt's complete blocks, if they are known
  TimePoint arrives;
};

/// What becomes of the last request that comes.
struct Foresight {
  TimePoint first_token;  ///< the end of the step that samples it
  std::uint32_t cached_tokens = 0;
  // Parts of the time until then; the rest is its way into the engine and the decodes of others beside it.
  Duration slot_wait{};  ///< while no batch slot or KV memory was free
  Duration queue{};      ///< by which the prompts of others made steps longer
  Duration prefill{};    ///< by which its own prompt made steps longer
  // Of the decode step after its first token.
  Duration step{};  ///< without it
  Duration step_with{};
  std::uint32_t decoding = 0;       ///< other sequences in it
  std::uint64_t answer_tokens = 0;  ///< of its answer
  std::uint64_t shared_steps = 0;   ///< decode steps of others beside its answer, summed over them
};

/// Rolls the state of one worker's timed engine forward: admission in order, the token budget, slots, memory, steps
/// under way, the way into the queue, with the engine's own step times and the answers' true lengths. Without arrivals
/// afterwards the engine does the same to the nanosecond, except where RolledMemory simplifies, where drafts are
/// verified (they are left out), or where max_num_tokens is below the batch size. A step takes the time of what
/// changes in it. Threads: one.
class RollForward {
 public:
  /// Errors: those of StepTimeModel::of().
  [[nodiscard]] static Result<RollForward> of(const spec::WorkerSpec& worker);

  /// `incoming`: the requests on their way, in the order of their arrival; the last one is asked about. Requires: at
  /// least one; `view` is of the worker's engine at `now`.
  [[nodiscard]] Foresight look_ahead(const DriverView& view, std::span<const Incoming> incoming, TimePoint now);

  /// How long prefill of a full step takes, for comparing workers.
  [[nodiscard]] Duration full_prefill_step() const;

 private:
  /// A prompt that is not computed yet.
  struct Prompt {
    std::span<const kv::BlockHash> block_hashes;
    std::uint32_t tokens = 0;   // to be computed before the next sample
    std::uint32_t planned = 0;  // of them
    std::uint32_t blocks = 0;   // findable ones: those it finds while it waits, those it has made findable later
    std::uint64_t answer = 0;   // tokens still to be sampled
    std::uint32_t most = 0;     // tokens that can be computed after the prompt's
    std::uint32_t total_blocks = 0;
    std::uint32_t holder = 0;
    std::uint64_t looked_at = ~std::uint64_t{0};  // commits_ when `blocks` was found
  };
  struct Chunk {
    std::uint32_t prompt = 0;
    std::uint32_t computed = 0;  // of it when the step has ended
  };
  struct Step {
    std::uint64_t number = 0;
    TimePoint end;
    std::vector<Chunk> chunks;
    perfmodel::StepLoad load;
    perfmodel::StepLoad decodes;  // the part of `load` that is not prefill
    perfmodel::StepLoad own;      // the part that is the prefill of the request asked about
    bool no_room = false;         // the request waited because of slots or memory when it was planned
    bool first_token = false;     // of that request
  };
  struct Queued {
    std::uint32_t prompt = 0;
    TimePoint at;
  };

  RollForward(CoreOptions options, perfmodel::StepTimeModel model, spec::OutputLengthSpec lengths, double time_scale);

  void start(const DriverView& view, std::span<const Incoming> incoming);
  void add_running(const CoreView& view, const StepPlan* newest, std::uint64_t next_step);
  void add_steps(const DriverView& view);
  [[nodiscard]] Prompt prompt_of(const Request& request, std::uint32_t tokens,
                                 std::span<const kv::BlockHash> block_hashes);
  [[nodiscard]] std::span<const kv::BlockHash> hashes_of(const Request& request);
  void submit(const Incoming& incoming, bool is_asked);
  void take_in(TimePoint until);
  void begin_steps(TimePoint at);
  void plan(Step& step);
  void admit(Step& step, std::uint64_t& budget);
  [[nodiscard]] std::uint64_t share_of(std::uint64_t budget) const;
  void give(std::uint32_t prompt, Step& step, std::uint64_t& budget);
  void end_step(Step& step);
  void commit(Prompt& prompt, std::uint32_t tokens);
  void account(const Step& step);
  void foresee_decodes(const Prompt& prompt, std::uint64_t next_step);
  void find_cached(Prompt& prompt);
  [[nodiscard]] bool is_being_computed(const Prompt& prompt, const Step& step) const;
  [[nodiscard]] std::uint32_t usable(const Prompt& prompt) const;
  [[nodiscard]] std::uint64_t answer_tokens(const Request& request, std::uint32_t limit) const;
  [[nodiscard]] std::uint64_t last_step(std::uint64_t next_step, std::uint64_t samples, std::uint64_t most) const;
  [[nodiscard]] Duration duration(const perfmodel::StepLoad& load) const;
  [[nodiscard]] Duration scaled(Duration modelled, double scale) const;

  CoreOptions options_;
  perfmodel::StepTimeModel model_;
  spec::OutputLengthSpec lengths_;
  double time_scale_;
  RolledMemory memory_;

  // Of one look_ahead(); members to reuse their memory.
  const kv::BlockPool* pool_ = nullptr;
  RolledDecodes decodes_;
  std::vector<Prompt> prompts_;
  std::deque<std::vector<kv::BlockHash>> hashed_;  // block_hashes of prompts that the engine has not hashed yet
  std::vector<std::uint32_t> partial_;             // admitted prompts that are not planned to their end
  std::vector<std::uint32_t> uncommitted_;         // admitted prompts whose blocks were not all findable at first
  std::deque<std::uint32_t> waiting_;
  std::deque<Queued> arrivals_;
  std::deque<Step> steps_;  // under way, oldest first
  std::uint32_t running_ = 0;
  std::uint64_t last_number_ = 0;
  std::uint64_t commits_ = 0;
  Duration last_decode_step_{};
  std::uint32_t asked_ = 0;  // the prompt of the request asked about
  TimePoint accounted_;      // up to here its wait is divided into parts
  Foresight foresight_;
};

}  // namespace kvist::engine
