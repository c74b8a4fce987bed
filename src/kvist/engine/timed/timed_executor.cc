#include "kvist/engine/timed/timed_executor.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kvist/base/check.h"
#include "kvist/base/random.h"
#include "kvist/engine/timed/answer_length.h"
#include "kvist/text/prose.h"

namespace kvist::engine {
namespace {

// Prose is tokenized in pieces of this many bytes, for few calls and little memory per running request.
constexpr std::size_t kPieceBytes = 256;

/// A position in an answer.
struct AnswerPosition {
  std::uint64_t seed = 0;  ///< the request's
  std::uint64_t position = 0;
};

/// Plausible log probabilities, for clients that ask every engine for them. `chosen` is always the likeliest token,
/// with a probability from 0.4 to 1 that is drawn from the position. The others are the ids next to `chosen` that are
/// not special tokens, and share the rest, each with half of the one before. The probabilities are in descending order,
/// sum to less than 1, and are the same in every call. There are fewer than `likeliest` if the vocabulary has no more.
TokenLogprobs made_up_logprobs(AnswerPosition place, TokenId chosen, std::uint32_t likeliest,
                               const tokenizer::Tokenizer& tokenizer) {
  constexpr double kMost = 0.999;
  constexpr double kSpread = 0.6;
  const double uniform = RandomStream(mix_seed({place.seed, seed_part("logprobs"), place.position})).uniform();
  // Squared, because most tokens of a real answer are nearly certain.
  const double probability = kMost - kSpread * uniform * uniform;
  TokenLogprobs made{.chosen = {.token = chosen, .logprob = static_cast<float>(std::log(probability))},
                     .likeliest = {}};
  if (likeliest == 0) return made;
  made.likeliest.push_back(made.chosen);
  double rest = (1 - probability) / 2;
  const auto add = [&](std::int64_t id) {
    if (id < 0 || id >= tokenizer.vocabulary_size() || made.likeliest.size() == likeliest) return;
    const TokenId token(static_cast<std::uint32_t>(id));
    if (tokenizer.is_special(token)) return;
    made.likeliest.push_back({.token = token, .logprob = static_cast<float>(std::log(rest))});
    rest /= 2;
  };
  for (std::int64_t away = 1; away < tokenizer.vocabulary_size() && made.likeliest.size() < likeliest; ++away) {
    add(std::int64_t{chosen.value()} + away);
    add(std::int64_t{chosen.value()} - away);
  }
  return made;
}

/// The answers given in one slot, one after the other, token by token. What each token uses is in one cache line.
class alignas(64) Answer {
 public:
  void begin(const Request& request, std::uint64_t length, const tokenizer::Tokenizer& tokenizer) {
    request_ = request.id;
    seed_ = request.seed;
    logprobs_ = request.sampling ? request.sampling->logprobs : std::nullopt;
    acceptance_seed_ = mix_seed({request.seed, seed_part("acceptance")});
    prose_ = text::ProseStream(mix_seed({request.seed, seed_part("answer")}));
    remaining_ = length;
    given_ = 0;
    piece_.clear();
    at_ = 0;
    // What another engine gave is the same text, because it depends on the seed alone.
    for (; given_ < request.resumed; ++given_) (void)next_of_text(tokenizer);
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
    if (remaining_ != kEndlessAnswer) --remaining_;
    return next_of_text(tokenizer);
  }
  /// Appends the next `count` tokens, none of which is the last one.
  void next(std::uint64_t count, const tokenizer::Tokenizer& tokenizer, std::vector<TokenId>& tokens) {
    given_ += count;
    if (remaining_ != kEndlessAnswer) remaining_ -= count;
    while (count > 0) {
      if (at_ == piece_.size()) refill(tokenizer);
      const std::uint64_t some = std::min<std::uint64_t>(count, piece_.size() - at_);
      const auto from = piece_.begin() + static_cast<std::ptrdiff_t>(at_);
      tokens.insert(tokens.end(), from, from + static_cast<std::ptrdiff_t>(some));
      at_ += some;
      count -= some;
    }
  }
  [[nodiscard]] bool ended() const { return remaining_ == 0; }
  /// kEndlessAnswer: as many as are asked for.
  [[nodiscard]] std::uint64_t remaining() const { return remaining_; }
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
  [[nodiscard]] TokenId next_of_text(const tokenizer::Tokenizer& tokenizer) {
    if (at_ == piece_.size()) refill(tokenizer);
    return piece_[at_++];
  }
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

class TimedExecutor::Impl final : public AnswerSource {
 public:
  Impl(Options options, const tokenizer::Tokenizer& tokenizer) : options_(std::move(options)), tokenizer_(&tokenizer) {
    KVIST_CHECK(options_.time_scale > 0, fmt::format("time_scale is {}, not above 0", options_.time_scale));
  }

  void admit(SlotId slot, const Request& request) {
    if (slot.value() >= answers_.size()) answers_.resize(slot.value() + 1);
    Answer& answer = answers_[slot.value()];
    KVIST_CHECK(answer.request() == RequestId(0), fmt::format("slot {} is taken", slot.value()));
    answer.begin(request, answer_length(options_.output_length, request), *tokenizer_);
  }

  void release(SlotId slot) { answers_[slot.value()].end(); }

  [[nodiscard]] std::optional<std::uint64_t> tokens_left(SlotId slot) const override {
    const Answer& answer = answers_[slot.value()];
    if (answer.has_logprobs()) return std::nullopt;
    return answer.remaining();
  }
  void take(SlotId slot, std::uint32_t count, std::vector<TokenId>& tokens) override {
    Answer& answer = answers_[slot.value()];
    KVIST_CHECK(count < answer.remaining(), "the last token of an answer is sampled in its step");
    answer.next(count, *tokenizer_, tokens);
  }

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
      if (answer.has_logprobs()) logprobs = &result.logprobs.emplace_back(SampledLogprobs{.id = step.id}).tokens;
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

AnswerSource* TimedExecutor::answers() {
  return impl_.get();
}

}  // namespace kvist::engine
