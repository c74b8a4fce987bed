#include "kvist/engine/timed/timed_executor.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kvist/base/check.h"
#include "kvist/base/random.h"
#include "kvist/engine/timed/made_up_logprobs.h"
#include "kvist/text/prose.h"

namespace kvist::engine {
namespace {

// Prose is tokenized in pieces of this many bytes, for few calls and little memory per running request.
constexpr std::size_t kPieceBytes = 256;

constexpr std::uint64_t kEndless = std::numeric_limits<std::uint64_t>::max();

/// The number of tokens of the answer to `request`, including the end-of-turn token.
std::uint64_t draw_length(const spec::OutputLengthSpec& spec, const Request& request) {
  if (request.ignore_eos) return kEndless;
  RandomStream random(mix_seed({request.seed, seed_part("output length")}));
  const double drawn = std::round(random.normal(spec.mean_tokens, spec.standard_deviation_tokens));
  // At least one token besides the end of the turn, because an answer without content is a failure to the client. The
  // core cuts at max_tokens; the upper bound here only keeps the conversion defined.
  const auto length = static_cast<std::uint64_t>(std::clamp(drawn, 2.0, 1e12));
  if (!request.sampling) return length;
  return std::max(length, std::uint64_t{request.sampling->min_tokens} + 1);
}

/// The answers given in one slot, one after the other, token by token. What each token uses is in one cache line.
class alignas(64) Answer {
 public:
  void begin(const Request& request, std::uint64_t length) {
    request_ = request.id;
    seed_ = request.seed;
    logprobs_ = request.sampling ? request.sampling->logprobs : std::nullopt;
    acceptance_seed_ = mix_seed({request.seed, seed_part("acceptance")});
    prose_ = text::ProseStream(mix_seed({request.seed, seed_part("answer")}));
    remaining_ = length;
    given_ = 0;
    piece_.clear();
    at_ = 0;
  }
  void end() { request_ = RequestId(0); }
  [[nodiscard]] RequestId request() const { return request_; }

  /// The next token; the end-of-turn token at the end, and again for steps that were planned beyond it.
  [[nodiscard]] TokenId next(const tokenizer::Tokenizer& tokenizer) {
    ++given_;
    if (remaining_ <= 1) {
      remaining_ = 0;
      return tokenizer.special(tokenizer::SpecialToken::kEndOfTurn);
    }
    if (remaining_ != kEndless) --remaining_;
    if (at_ == piece_.size()) refill(tokenizer);
    return piece_[at_++];
  }
  [[nodiscard]] bool ended() const { return remaining_ == 0; }
  /// Whether a draft of the last token is accepted, when drafts at that position are with this probability.
  [[nodiscard]] bool accepts(double probability) const {
    return RandomStream(mix_seed({acceptance_seed_, given_})).uniform() < probability;
  }
  [[nodiscard]] bool has_logprobs() const { return logprobs_.has_value(); }
  /// The log probabilities of the last token. Requires: has_logprobs().
  [[nodiscard]] TokenLogprobs logprobs(TokenId token, const tokenizer::Tokenizer& tokenizer) const {
    return made_up_logprobs({.seed = seed_, .position = given_}, token, *logprobs_, tokenizer);
  }

 private:
  void refill(const tokenizer::Tokenizer& tokenizer) {
    piece_.clear();
    at_ = 0;
    tokenizer.encode(prose_.take(kPieceBytes), piece_);
    KVIST_CHECK(!piece_.empty(), "a tokenizer made no tokens of prose");
  }

  RequestId request_;  // 0: none
  std::uint64_t remaining_ = 0;
  std::uint64_t given_ = 0;
  std::size_t at_ = 0;
  std::vector<TokenId> piece_;
  std::optional<std::uint32_t> logprobs_;
  std::uint64_t seed_ = 0;
  std::uint64_t acceptance_seed_ = 0;
  text::ProseStream prose_{0};
};

}  // namespace

class TimedExecutor::Impl {
 public:
  Impl(Options options, const tokenizer::Tokenizer& tokenizer) : options_(std::move(options)), tokenizer_(&tokenizer) {
    KVIST_CHECK(options_.time_scale > 0, fmt::format("time_scale is {}, not above 0", options_.time_scale));
  }

  void admit(SlotId slot, const Request& request) {
    if (slot.value() >= answers_.size()) answers_.resize(slot.value() + 1);
    Answer& answer = answers_[slot.value()];
    KVIST_CHECK(answer.request() == RequestId(0), fmt::format("slot {} is taken", slot.value()));
    answer.begin(request, draw_length(options_.output_length, request));
  }

  void release(SlotId slot) { answers_[slot.value()].end(); }

  [[nodiscard]] Duration duration(const StepPlan& plan) const {
    const Duration unscaled = options_.step_time.step_time(plan.load);
    if (options_.time_scale == 1) return unscaled;
    return Duration(std::llround(static_cast<double>(unscaled.count()) / options_.time_scale));
  }

  void finish(const StepPlan& plan, StepResult& result) {
    result.sampled.clear();
    result.logprobs.clear();
    for (const SequenceStep& step : plan.sequences) {
      if (!step.samples) continue;
      KVIST_CHECK(step.slot.value() < answers_.size() && answers_[step.slot.value()].request() == step.id,
                  fmt::format("request {} is not admitted", step.id.value()));
      Answer& answer = answers_[step.slot.value()];
      SampledTokens& sampled = result.sampled.emplace_back();
      sampled.id = step.id;
      sampled.drafted = static_cast<std::uint8_t>(step.drafts);
      std::vector<TokenLogprobs>* logprobs = nullptr;
      if (answer.has_logprobs())
        logprobs = &result.logprobs.emplace_back(SampledLogprobs{.id = step.id, .tokens = {}}).tokens;
      const auto take = [&] {
        sampled.tokens.push_back(answer.next(*tokenizer_));
        if (logprobs != nullptr) logprobs->push_back(answer.logprobs(sampled.tokens.back(), *tokenizer_));
      };
      take();
      for (std::uint32_t i = 0; i < step.drafts && !answer.ended() && answer.accepts(acceptance(i)); ++i) take();
      sampled.ends = answer.ended();
    }
  }

 private:
  // The last probability applies to all further positions.
  [[nodiscard]] double acceptance(std::size_t draft) const {
    if (options_.acceptance.empty()) return 0;
    return options_.acceptance[std::min(draft, options_.acceptance.size() - 1)];
  }

  Options options_;
  const tokenizer::Tokenizer* tokenizer_;
  std::vector<Answer> answers_;  // by slot
};

TimedExecutor::TimedExecutor(Options options, const tokenizer::Tokenizer& tokenizer)
    : impl_(std::make_unique<Impl>(std::move(options), tokenizer)) {}
TimedExecutor::~TimedExecutor() = default;

void TimedExecutor::on_admit(SlotId slot, const Request& request, std::span<const TokenId> /*prompt*/) {
  impl_->admit(slot, request);
}
void TimedExecutor::on_release(SlotId slot) {
  impl_->release(slot);
}
std::optional<Duration> TimedExecutor::duration(const StepPlan& plan) {
  return impl_->duration(plan);
}
void TimedExecutor::finish(const StepPlan& plan, StepResult& result) {
  impl_->finish(plan, result);
}

}  // namespace kvist::engine
