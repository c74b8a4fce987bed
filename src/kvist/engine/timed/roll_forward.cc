#include "kvist/engine/timed/roll_forward.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/engine/timed/answer_length.h"

namespace kvist::engine {
namespace {

/// More steps than this are not rolled: after them the request counts as served at once. So many take longer than the
/// timeouts of requests.
constexpr std::uint64_t kMostSteps = 50'000;

void add(perfmodel::StepLoad& load, const perfmodel::StepLoad& more) {
  load.sequences += more.sequences;
  load.kv_tokens_read += more.kv_tokens_read;
  load.prefill_tokens += more.prefill_tokens;
  load.prefill_pairs += more.prefill_pairs;
}

/// The number of leading blocks that both have. Requires: the first `known` are equal.
std::uint32_t common_blocks(std::span<const kv::BlockHash> a, std::span<const kv::BlockHash> b, std::size_t known) {
  // A block hash stands for all before it, so the common part can be searched for by halves.
  std::size_t low = known;
  std::size_t high = std::min(a.size(), b.size());
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (a[middle] == b[middle]) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return static_cast<std::uint32_t>(low);
}

}  // namespace

RollForward::RollForward(CoreOptions options, perfmodel::StepTimeModel model, spec::OutputLengthSpec lengths,
                         double time_scale)
    : options_(std::move(options)),
      model_(std::move(model)),
      lengths_(lengths),
      time_scale_(time_scale),
      memory_(options_.admission) {}

Result<RollForward> RollForward::of(const spec::WorkerSpec& worker) {
  KVIST_TRY(perfmodel::StepTimeModel model, perfmodel::StepTimeModel::of(worker));
  return RollForward(core_options(worker), std::move(model), worker.output_length, worker.time_scale);
}

Duration RollForward::scaled(Duration modelled, double scale) const {
  return scale == 1 ? modelled : Duration(std::llround(static_cast<double>(modelled.count()) / scale));
}

Duration RollForward::duration(const perfmodel::StepLoad& load) const {
  return scaled(model_.step_time(load), time_scale_);
}

Duration RollForward::full_prefill_step() const {
  const std::uint64_t tokens = options_.max_num_tokens;
  return duration(
      {.prefill_tokens = tokens, .sequences = 1, .kv_tokens_read = tokens, .prefill_pairs = tokens * (tokens + 1) / 2});
}

std::uint64_t RollForward::answer_tokens(const Request& request, std::uint32_t limit) const {
  return std::min<std::uint64_t>(answer_length(lengths_, request), limit);
}

// With overlap scheduling an answer's end is known only after the step behind it was planned, except where the limit of
// its length ends it, which is known before.
std::uint64_t RollForward::last_step(std::uint64_t next_step, std::uint64_t samples, std::uint64_t most) const {
  return next_step - 1 + std::min(samples + options_.max_steps_in_flight - 1, most);
}

std::span<const kv::BlockHash> RollForward::hashes_of(const Request& request) {
  if (request.prompt_blocks) return *request.prompt_blocks;
  const kv::BlockHash root = kv::root_hash({.model = options_.model, .lora = {}, .cache_salt = request.cache_salt});
  return hashed_.emplace_back(kv::hash_blocks(root, request.prompt, options_.block_size));
}

RollForward::Prompt RollForward::prompt_of(const Request& request, std::uint32_t tokens,
                                           std::span<const kv::BlockHash> block_hashes) {
  const std::uint32_t limit =
      std::min(request.max_tokens, options_.max_model_len - std::min(tokens, options_.max_model_len));
  const std::uint32_t most = std::max(1U, limit) - 1;
  return {.block_hashes = block_hashes,
          .tokens = tokens,
          .answer = answer_tokens(request, std::max(1U, limit)),
          .most = most,
          .total_blocks = (tokens + most + options_.block_size - 1) / options_.block_size};
}

Foresight RollForward::look_ahead(const DriverView& view, std::span<const Incoming> incoming, TimePoint now) {
  KVIST_CHECK(!incoming.empty(), "nothing is asked about");
  start(view, incoming);
  accounted_ = TimePoint::max();
  begin_steps(now);
  for (std::size_t next = 0;;) {
    const TimePoint arrival = next < incoming.size() ? incoming[next].arrives : TimePoint::max();
    const TimePoint end = steps_.empty() ? TimePoint::max() : steps_.front().end;
    const bool can_begin = steps_.size() < options_.max_steps_in_flight && !arrivals_.empty();
    const TimePoint queued = can_begin ? arrivals_.front().at : TimePoint::max();
    const TimePoint at = std::min({arrival, end, queued});
    if (at == TimePoint::max() || last_number_ > kMostSteps) {
      foresight_.first_token = std::max(now, steps_.empty() ? now : steps_.back().end);
      return foresight_;
    }
    if (arrival == at) {
      submit(incoming[next], next + 1 == incoming.size());
      ++next;
    } else if (end == at) {
      Step step = std::move(steps_.front());
      steps_.pop_front();
      end_step(step);
      if (step.first_token) return foresight_;
    }
    take_in(at);
    begin_steps(at);
  }
}

void RollForward::start(const DriverView& view, std::span<const Incoming> incoming) {
  pool_ = view.core.pool;
  decodes_.clear();
  prompts_.clear();
  hashed_.clear();
  partial_.clear();
  uncommitted_.clear();
  waiting_.clear();
  arrivals_.clear();
  steps_.clear();
  commits_ = 0;
  foresight_ = {};
  asked_ = ~0U;
  last_decode_step_ = view.last_decode_step;
  running_ = static_cast<std::uint32_t>(view.core.running.size());
  last_number_ = view.steps.size();

  std::uint64_t asked = 0;
  for (const SequenceView& waiting : view.core.waiting) asked += waiting.total_blocks;
  for (const DriverView::Arrival& arrival : view.arrivals) {
    prompts_.push_back(prompt_of(*arrival.request, arrival.request->prompt_tokens(), hashes_of(*arrival.request)));
    arrivals_.push_back({.prompt = static_cast<std::uint32_t>(prompts_.size() - 1), .at = arrival.queued});
    asked += prompts_.back().total_blocks;
  }
  for (const Incoming& coming : incoming) {
    asked += prompt_of(*coming.request, coming.prompt_tokens, {}).total_blocks;
  }
  memory_.begin(view.core, asked);
  add_running(view.core, view.steps.empty() ? nullptr : view.steps.back().plan, last_number_ + 1);
  add_steps(view);
  for (const SequenceView& waiting : view.core.waiting) {
    Prompt prompt = prompt_of(*waiting.request, waiting.prompt_tokens, waiting.block_hashes);
    // A preempted request computes its answer so far again.
    const std::uint32_t given = waiting.known - waiting.prompt_tokens;
    prompt.tokens += given;
    prompt.answer -= std::min<std::uint64_t>(prompt.answer - 1, given);
    prompt.most -= std::min(prompt.most, given);
    waiting_.push_back(static_cast<std::uint32_t>(prompts_.size()));
    prompts_.push_back(prompt);
  }
}

void RollForward::add_running(const CoreView& view, const StepPlan* newest, std::uint64_t next_step) {
  std::vector<bool> in_newest(options_.max_batch_size, false);
  if (newest != nullptr) {
    for (const SequenceStep& step : newest->sequences) in_newest[step.slot.value()] = true;
  }
  for (const SequenceView& running : view.running) {
    const std::uint32_t holder = memory_.hold(running);
    const std::uint64_t answer = answer_tokens(*running.request, running.output_limit);
    const std::uint32_t given = running.known - running.prompt_tokens;
    const std::uint32_t final_computed = running.prompt_tokens + running.output_limit - 1;
    if (running.committed_blocks < running.block_hashes.size() && !running.ended) {
      uncommitted_.push_back(static_cast<std::uint32_t>(prompts_.size()));
    }
    Prompt prompt{.block_hashes = running.block_hashes,
                  .tokens = running.known,
                  .planned = running.planned,
                  .blocks = running.committed_blocks,
                  .answer = answer - std::min<std::uint64_t>(answer, given),
                  .most = final_computed - std::min(final_computed, running.known),
                  .total_blocks = running.total_blocks,
                  .holder = holder};
    const bool decodes = running.ended || running.planned >= running.prefill_end;
    if (!decodes) partial_.push_back(static_cast<std::uint32_t>(prompts_.size()));
    prompts_.push_back(prompt);
    if (!decodes) continue;
    // Samples may be planned beyond an end that is not known yet.
    std::uint64_t more = 0;
    if (!running.ended && answer + options_.max_steps_in_flight > given + 1) {
      more = std::min<std::uint64_t>(answer + options_.max_steps_in_flight - 1 - given,
                                     final_computed - std::min(final_computed, running.planned));
    }
    std::uint64_t last = next_step - 1 + more;
    if (more == 0 && next_step > 1 && !in_newest[running.slot.value()]) --last;
    decodes_.add(next_step, last, running.planned + 1, holder);
  }
}

void RollForward::add_steps(const DriverView& view) {
  for (const DriverView::Step& under_way : view.steps) {
    Step& step = steps_.emplace_back();
    step.number = steps_.size();
    step.end = under_way.end;
    const perfmodel::StepLoad& load = under_way.plan->load;
    step.load = load;
    step.decodes = {.sequences = load.decode_sequences,
                    .kv_tokens_read = load.decode_kv_tokens,
                    .decode_sequences = load.decode_sequences,
                    .decode_kv_tokens = load.decode_kv_tokens};
    for (const SequenceStep& sequence : under_way.plan->sequences) {
      if (!sequence.is_prefill) continue;
      for (std::size_t i = 0; i < view.core.running.size(); ++i) {
        if (view.core.running[i].slot != sequence.slot) continue;
        // Running requests come behind those on their way in prompts_.
        step.chunks.push_back({.prompt = static_cast<std::uint32_t>(view.arrivals.size() + i),
                               .computed = sequence.first + sequence.count});
      }
    }
  }
}

void RollForward::submit(const Incoming& incoming, bool is_asked) {
  const auto block_hashes = incoming.block_hashes.empty() ? hashes_of(*incoming.request) : incoming.block_hashes;
  const auto prompt = static_cast<std::uint32_t>(prompts_.size());
  prompts_.push_back(prompt_of(*incoming.request, incoming.prompt_tokens, block_hashes));
  const Duration delay = model_.intake_delay({.running = running_,
                                              .last_decode_step = scaled(last_decode_step_, 1 / time_scale_),
                                              .prompt_tokens = incoming.prompt_tokens,
                                              .seed = incoming.request->seed});
  TimePoint queued = incoming.arrives + scaled(delay, time_scale_);
  if (!arrivals_.empty()) queued = std::max(queued, arrivals_.back().at);
  arrivals_.push_back({.prompt = prompt, .at = queued});
  if (!is_asked) return;
  asked_ = prompt;
  accounted_ = queued;
}

void RollForward::take_in(TimePoint until) {
  for (; !arrivals_.empty() && arrivals_.front().at <= until; arrivals_.pop_front()) {
    waiting_.push_back(arrivals_.front().prompt);
  }
}

void RollForward::begin_steps(TimePoint at) {
  while (steps_.size() < options_.max_steps_in_flight) {
    const TimePoint start = steps_.empty() ? at : std::max(at, steps_.back().end);
    Step step;
    step.number = last_number_ + 1;
    plan(step);
    if (step.load.sequences == 0) return;
    ++last_number_;
    const Duration taken = duration(step.load);
    step.end = start + taken;
    if (step.load.prefill_tokens == 0) last_decode_step_ = taken;
    steps_.push_back(std::move(step));
  }
}

void RollForward::plan(Step& step) {
  step.load = step.decodes = decodes_.load(step.number);
  memory_.grow(static_cast<double>(step.decodes.sequences) / options_.block_size);
  std::uint64_t budget =
      options_.max_num_tokens - std::min<std::uint64_t>(options_.max_num_tokens, step.load.sequences);
  for (const std::uint32_t prompt : partial_) give(prompt, step, budget);
  std::erase_if(partial_, [this](std::uint32_t i) { return prompts_[i].planned == prompts_[i].tokens; });
  admit(step, budget);
}

void RollForward::admit(Step& step, std::uint64_t& budget) {
  for (auto next = waiting_.begin(); next != waiting_.end() && budget > 0;) {
    if (running_ >= options_.max_batch_size) {
      step.no_room = true;
      return;
    }
    Prompt& prompt = prompts_[*next];
    find_cached(prompt);
    if (options_.prefix_deferral && is_being_computed(prompt, step)) {
      ++next;
      continue;
    }
    const std::uint32_t cached = usable(prompt);
    const std::uint32_t cached_tokens = cached * options_.block_size;
    const auto first =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(prompt.tokens - cached_tokens, share_of(budget)));
    const RolledMemory::Demand demand{
        .total = prompt.total_blocks,
        .cached = cached,
        .first_step = (cached_tokens + first + options_.block_size - 1) / options_.block_size - cached,
        .block_hashes = prompt.block_hashes};
    if (!memory_.admits(demand)) {
      step.no_room = true;
      return;
    }
    prompt.holder = memory_.admit(demand);
    prompt.blocks = cached;
    prompt.planned = cached_tokens;
    if (*next == asked_) foresight_.cached_tokens = cached_tokens;
    if (cached < prompt.block_hashes.size()) uncommitted_.push_back(*next);
    const std::uint32_t index = *next;
    next = waiting_.erase(next);
    ++running_;
    give(index, step, budget);
    if (prompt.planned < prompt.tokens) partial_.push_back(index);
  }
}

// The most that one prompt gets in a step. Admission moves requests from one of the two numbers to the other.
std::uint64_t RollForward::share_of(std::uint64_t budget) const {
  const std::uint64_t threshold = options_.long_prefill_token_threshold;
  return threshold > 0 && running_ + waiting_.size() > 1 ? std::min(budget, threshold) : budget;
}

void RollForward::give(std::uint32_t index, Step& step, std::uint64_t& budget) {
  Prompt& prompt = prompts_[index];
  const std::uint64_t count = std::min<std::uint64_t>(prompt.tokens - prompt.planned, share_of(budget));
  if (count == 0) return;
  const std::uint64_t first = prompt.planned;
  const perfmodel::StepLoad part{.prefill_tokens = count,
                                 .sequences = 1,
                                 .kv_tokens_read = first + count,
                                 .prefill_pairs = count * first + count * (count + 1) / 2};
  add(step.load, part);
  if (index == asked_) step.own = part;
  budget -= count;
  prompt.planned += static_cast<std::uint32_t>(count);
  memory_.grow(static_cast<double>(count) / options_.block_size);
  step.chunks.push_back({.prompt = index, .computed = prompt.planned});
  if (options_.prefix_when_planned) commit(prompt, prompt.planned);
  if (prompt.planned < prompt.tokens) return;
  if (index == asked_) {
    step.first_token = true;
    foresee_decodes(prompt, step.number + 1);
  }
  decodes_.add(step.number + 1, last_step(step.number + 1, prompt.answer - 1, prompt.most), prompt.tokens + 1,
               prompt.holder);
}

void RollForward::foresee_decodes(const Prompt& prompt, std::uint64_t next_step) {
  const perfmodel::StepLoad without = decodes_.load(next_step);
  perfmodel::StepLoad with = without;
  with.sequences += 1;
  with.decode_sequences += 1;
  with.kv_tokens_read += prompt.tokens + 1;
  with.decode_kv_tokens += prompt.tokens + 1;
  foresight_.step = duration(without);
  foresight_.step_with = duration(with);
  foresight_.decoding = static_cast<std::uint32_t>(without.sequences);
  foresight_.answer_tokens = prompt.answer;
  foresight_.shared_steps = 0;
  for (const RolledDecodes::Sequence& other : decodes_.taking_part()) {
    foresight_.shared_steps += std::min(other.last - next_step + 1, prompt.answer);
  }
}

void RollForward::end_step(Step& step) {
  for (const Chunk& chunk : step.chunks) {
    commit(prompts_[chunk.prompt], chunk.computed);
  }
  decodes_.end(step.number, [&](const RolledDecodes::Sequence& gone) {
    --running_;
    const auto context = static_cast<std::uint64_t>(gone.offset + static_cast<std::int64_t>(gone.last));
    memory_.leave(gone.holder, static_cast<std::uint32_t>((context + options_.block_size - 1) / options_.block_size));
  });
  account(step);
  if (step.first_token) foresight_.first_token = step.end;
}

void RollForward::commit(Prompt& prompt, std::uint32_t tokens) {
  const auto complete =
      static_cast<std::uint32_t>(std::min<std::size_t>(tokens / options_.block_size, prompt.block_hashes.size()));
  if (complete <= prompt.blocks) return;
  prompt.blocks = complete;
  ++commits_;
}

// A step during which the request waits in the queue, or is computed, is divided by what made it as long as it was.
void RollForward::account(const Step& step) {
  if (step.end <= accounted_) return;
  const Duration all = duration(step.load);
  const Duration passed = std::min<Duration>(step.end - accounted_, all);
  accounted_ = step.end;
  if (step.no_room && step.own.sequences == 0) {
    foresight_.slot_wait += passed;
    return;
  }
  if (step.load.prefill_tokens == 0 || all <= Duration::zero()) return;
  perfmodel::StepLoad with_own = step.decodes;
  add(with_own, step.own);
  const Duration decodes = duration(step.decodes);
  const Duration alone = step.own.sequences == 0 ? decodes : duration(with_own);
  const double share = static_cast<double>(passed.count()) / static_cast<double>(all.count());
  foresight_.queue += Duration(std::llround(share * static_cast<double>((all - alone).count())));
  foresight_.prefill += alone - decodes;
}

// Leading blocks that are findable: in the pool now, or computed since by a request before it. The ends of prefixes are
// evicted before their beginnings, so that the pool can be searched by halves.
void RollForward::find_cached(Prompt& prompt) {
  if (prompt.looked_at == commits_) return;
  if (prompt.looked_at == ~std::uint64_t{0}) {
    std::size_t low = 0;
    for (std::size_t high = prompt.block_hashes.size(); low < high;) {
      const std::size_t middle = (low + high) / 2;
      if (pool_->find(prompt.block_hashes[middle])) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    prompt.blocks = static_cast<std::uint32_t>(low);
  }
  prompt.looked_at = commits_;
  for (const std::uint32_t index : uncommitted_) {
    const Prompt& other = prompts_[index];
    const std::size_t next = prompt.blocks;
    if (other.blocks <= next || next >= prompt.block_hashes.size() ||
        other.block_hashes[next] != prompt.block_hashes[next])
      continue;
    prompt.blocks = std::min(other.blocks, common_blocks(other.block_hashes, prompt.block_hashes, next));
  }
}

// An engine always computes the last token, because the first sample follows from it.
std::uint32_t RollForward::usable(const Prompt& prompt) const {
  return std::min(prompt.blocks, (prompt.tokens - 1) / options_.block_size);
}

bool RollForward::is_being_computed(const Prompt& prompt, const Step& step) const {
  const std::size_t next = prompt.blocks;
  if (next >= std::min<std::size_t>(prompt.block_hashes.size(), (prompt.tokens - 1) / options_.block_size))
    return false;
  return std::ranges::any_of(step.chunks, [&](const Chunk& chunk) {
    const Prompt& other = prompts_[chunk.prompt];
    return next >= other.blocks && next < other.block_hashes.size() &&
           other.block_hashes[next] == prompt.block_hashes[next];
  });
}

}  // namespace kvist::engine
