#include "kvist/engine/cpu/llama_executor.h"

#include <algorithm>
#include <utility>

#include "kvist/base/check.h"

namespace kvist::engine::cpu {

namespace {

// A prompt's log probabilities are computed so many rows at a time at least: fewer would read the output weights too
// often.
constexpr std::uint64_t kLeastLogitRows = 16;

}  // namespace

LlamaExecutor::LlamaExecutor(std::shared_ptr<ForwardPass> forward, Options options)
    : forward_(std::move(forward)), options_(std::move(options)), slots_(options_.max_batch_size) {}

std::uint32_t LlamaExecutor::most_logit_rows(std::uint32_t max_batch_size, std::uint32_t most_drafts,
                                             std::uint32_t max_num_tokens) {
  const std::uint64_t rows =
      std::max<std::uint64_t>(kLeastLogitRows, std::uint64_t{max_batch_size} * (most_drafts + 1ULL));
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(rows, std::max(max_num_tokens, max_batch_size)));
}

void LlamaExecutor::on_admit(SlotId id, const Request& request, std::span<const TokenId> prompt) {
  Slot& slot = slots_.at(id.value());
  slot.request = request.id;
  slot.sampling = request.sampling ? request.sampling : std::make_shared<const SamplingOptions>();
  slot.seed = request.seed;
  slot.ignore_eos = request.ignore_eos;
  KVIST_CHECK(request.resumed < prompt.size(), "an answer is resumed behind a prompt");
  const std::size_t prompt_tokens = prompt.size() - request.resumed;
  slot.prompt_tokens = static_cast<std::uint32_t>(prompt_tokens);
  slot.text.begin(prompt, options_.drafts);
  if (slot.sampling->prompt_logprobs) slot.prompt_logprobs = std::make_shared<std::vector<TokenLogprobs>>();
  slot.counts.clear();
  if (!slot.sampling->penalizes()) return;
  slot.counts.add_prompt(prompt.first(prompt_tokens));
  for (const TokenId token : prompt.subspan(prompt_tokens)) slot.counts.add_answer(token);
}

void LlamaExecutor::on_release(SlotId id) {
  slots_.at(id.value()) = {};
}

void LlamaExecutor::finish(const StepPlan& plan, StepResult& result) {
  KVIST_CHECK(plan.block_tables.size() == plan.sequences.size(), "a plan without block tables cannot be computed");
  tokens_.clear();
  sequences_.clear();
  logit_rows_.clear();
  for (std::size_t i = 0; i < plan.sequences.size(); ++i) add_rows(plan.sequences[i], plan.block_tables[i]);
  const Logits logits = forward_->run({.tokens = tokens_, .sequences = sequences_, .logit_rows = logit_rows_});
  result.sampled.clear();
  result.logprobs.clear();
  std::size_t row = 0;
  for (const SequenceStep& step : plan.sequences) {
    if (!step.samples) continue;
    sample(step, logits, row, result);
    row += slots_[step.slot.value()].drafts.size() + 1;
  }
  read_prompts(plan, result);
}

// After the samples, whose logits this overwrites.
void LlamaExecutor::read_prompts(const StepPlan& plan, StepResult& result) {
  std::size_t row = 0;
  for (std::size_t i = 0; i < plan.sequences.size(); row += sequences_[i++].rows) {
    const SequenceStep& step = plan.sequences[i];
    Slot& slot = slots_[step.slot.value()];
    if (!slot.prompt_logprobs) continue;
    read_prompt(slot, step, row);
    if (!step.samples) continue;
    std::ranges::find(result.logprobs, step.id, &SampledLogprobs::id)->prompt = std::move(slot.prompt_logprobs);
    slot.prompt_logprobs.reset();
  }
}

// The token at position p is predicted by the row of position p - 1. A preempted request computes rows again whose
// predictions are known.
void LlamaExecutor::read_prompt(Slot& slot, const SequenceStep& step, std::size_t first_row) {
  std::vector<TokenLogprobs>& known = *slot.prompt_logprobs;
  const std::uint32_t end = std::min(step.first + step.count, slot.prompt_tokens - 1);
  auto position = static_cast<std::uint32_t>(known.size());
  KVIST_CHECK(step.first <= position,
              "a prompt whose log probabilities are wanted was not computed from its beginning");
  while (position < end) {
    const std::uint32_t count = std::min(end - position, options_.max_logit_rows);
    more_rows_.clear();
    for (std::uint32_t i = 0; i < count; ++i)
      more_rows_.push_back(static_cast<std::uint32_t>(first_row) + position + i - step.first);
    const Logits logits = forward_->more_logits(more_rows_);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::span<const float> row = logits.row(i);
      known.push_back(sampler_.logprobs(row.first(std::min<std::size_t>(row.size(), options_.vocabulary)),
                                        slot.text.tokens()[position + i + 1], *slot.sampling->prompt_logprobs));
    }
    position += count;
  }
}

// A drafter may propose fewer tokens than the plan allows: only those are computed.
void LlamaExecutor::add_rows(const SequenceStep& step, std::span<const kv::BlockId> blocks) {
  Slot& slot = slots_[step.slot.value()];
  KVIST_CHECK(slot.request == step.id, "a request in a plan that was not admitted");
  const std::uint32_t known = step.count - step.drafts;
  const std::span<const TokenId> text = slot.text.tokens();
  KVIST_CHECK(step.first + known <= text.size(), "a plan computes tokens that do not exist");
  slot.drafts.clear();
  if (step.drafts > 0) slot.text.propose(step.drafts, slot.drafts);
  const auto begin = text.begin() + step.first;
  tokens_.insert(tokens_.end(), begin, begin + known);
  tokens_.insert(tokens_.end(), slot.drafts.begin(), slot.drafts.end());
  const auto drafted = static_cast<std::uint32_t>(slot.drafts.size());
  sequences_.push_back({.rows = known + drafted, .first_position = step.first, .blocks = blocks});
  if (!step.samples) return;
  for (std::uint32_t i = 0; i <= drafted; ++i)
    logit_rows_.push_back(static_cast<std::uint32_t>(tokens_.size()) - 1 - drafted + i);
}

void LlamaExecutor::sample(const SequenceStep& step, const Logits& logits, std::size_t first_row, StepResult& result) {
  Slot& slot = slots_[step.slot.value()];
  SampledTokens& sampled = result.sampled.emplace_back();
  sampled.id = step.id;
  sampled.drafted = static_cast<std::uint8_t>(slot.drafts.size());
  std::vector<TokenLogprobs>* logprobs = nullptr;
  if (slot.sampling->logprobs || slot.prompt_logprobs) result.logprobs.push_back({.id = step.id});
  if (slot.sampling->logprobs) logprobs = &result.logprobs.back().tokens;
  for (std::size_t i = 0; i <= slot.drafts.size(); ++i) {
    const TokenId token = sample_one(slot, logits.row(first_row + i), logprobs);
    sampled.tokens.push_back(token);
    sampled.ends = ends(slot, token);
    if (sampled.ends || i == slot.drafts.size() || token != slot.drafts[i]) break;
  }
}

TokenId LlamaExecutor::sample_one(Slot& slot, std::span<float> logits, std::vector<TokenLogprobs>* logprobs) {
  const SamplingOptions& options = *slot.sampling;
  logits = logits.first(std::min<std::size_t>(logits.size(), options_.vocabulary));
  if (logprobs != nullptr) untouched_.assign(logits.begin(), logits.end());
  const auto place = static_cast<std::uint32_t>(slot.text.tokens().size()) - slot.prompt_tokens;
  banned_.clear();
  if (place < options.min_tokens) add_ends(slot, banned_);
  sampler_.adjust(logits, options, &slot.counts, banned_);
  const TokenId token = sampler_.choose(logits, options, sample_uniform(slot.seed, place));
  if (logprobs != nullptr) logprobs->push_back(sampler_.logprobs(untouched_, token, *options.logprobs));
  slot.text.add(token);
  if (options.penalizes()) slot.counts.add_answer(token);
  return token;
}

bool LlamaExecutor::ends(const Slot& slot, TokenId token) const {
  if (std::ranges::find(slot.sampling->stop_tokens, token) != slot.sampling->stop_tokens.end()) return true;
  return !slot.ignore_eos && std::ranges::find(options_.end_tokens, token) != options_.end_tokens.end();
}

void LlamaExecutor::add_ends(const Slot& slot, std::vector<TokenId>& banned) const {
  banned.insert(banned.end(), slot.sampling->stop_tokens.begin(), slot.sampling->stop_tokens.end());
  banned.insert(banned.end(), options_.end_tokens.begin(), options_.end_tokens.end());
}

}  // namespace kvist::engine::cpu
