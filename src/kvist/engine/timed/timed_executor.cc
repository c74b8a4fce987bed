#include "kvist/engine/timed/timed_executor.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "kvist/base/check.h"
#include "kvist/base/random.h"
#include "kvist/perfmodel/step_time.h"
#include "kvist/text/prose.h"

namespace kvist::engine {
namespace {

// Prose is turned into tokens in pieces of this many bytes: few allocations, little memory per running request.
constexpr std::size_t kPieceBytes = 256;

constexpr std::uint64_t kEndless = std::numeric_limits<std::uint64_t>::max();

/// Tokens of the answer to `request`, the end-of-turn token included.
std::uint64_t draw_length(const spec::OutputLengthSpec& spec, const Request& request) {
  if (request.ignore_eos) return kEndless;
  RandomStream random(mix_seed({request.seed, seed_part("output length")}));
  const double drawn = std::round(random.normal(spec.mean_tokens, spec.standard_deviation_tokens));
  // The core cuts at max_tokens; the bound here only keeps the conversion defined for any mean and deviation.
  return static_cast<std::uint64_t>(std::clamp(drawn, 1.0, 1e12));
}

/// One answer, token by token.
class Answer {
 public:
  Answer(const Request& request, std::uint64_t length)
      : prose_(mix_seed({request.seed, seed_part("answer")})), remaining_(length) {}

  /// The next token; the end-of-turn token at the end, and again for steps that were planned past it.
  SampledTokens next(RequestId id, const text::Tokenizer& tokenizer) {
    if (remaining_ <= 1) {
      remaining_ = 0;
      return {.id = id, .tokens = {tokenizer.special(text::SpecialToken::kEndOfTurn)}, .ends = true};
    }
    if (remaining_ != kEndless) --remaining_;
    if (at_ == piece_.size()) {
      piece_.clear();
      tokenizer.encode(prose_.take(kPieceBytes), piece_);
      KVIST_CHECK(!piece_.empty(), "a tokenizer made no tokens of prose");
      at_ = 0;
    }
    return {.id = id, .tokens = {piece_[at_++]}, .ends = false};
  }

 private:
  text::ProseStream prose_;
  std::uint64_t remaining_;
  std::vector<TokenId> piece_;
  std::size_t at_ = 0;
};

}  // namespace

class TimedExecutor::Impl {
 public:
  Impl(const Options& options, const text::Tokenizer& tokenizer) : options_(options), tokenizer_(&tokenizer) {
    KVIST_CHECK(options_.time_scale > 0, fmt::format("time_scale is {}, not above 0", options_.time_scale));
  }

  void admit(const Request& request) {
    const std::uint64_t length = draw_length(options_.output_length, request);
    const bool is_new = answers_.try_emplace(request.id, request, length).second;
    KVIST_CHECK(is_new, fmt::format("request {} was admitted twice", request.id.value()));
  }

  void release(RequestId id) { answers_.erase(id); }

  [[nodiscard]] Duration duration(const StepPlan& plan) const {
    const Duration unscaled = perfmodel::step_time(options_.step_time, plan.load);
    return Duration(std::llround(static_cast<double>(unscaled.count()) / options_.time_scale));
  }

  [[nodiscard]] StepResult finish(const StepPlan& plan) {
    StepResult result;
    result.sampled.reserve(plan.sequences.size());
    for (const SequenceStep& step : plan.sequences) {
      if (!step.samples) continue;
      const auto answer = answers_.find(step.id);
      KVIST_CHECK(answer != answers_.end(), fmt::format("request {} is not admitted", step.id.value()));
      result.sampled.push_back(answer->second.next(step.id, *tokenizer_));
    }
    return result;
  }

 private:
  Options options_;
  const text::Tokenizer* tokenizer_;
  std::unordered_map<RequestId, Answer> answers_;  // for look-up only
};

TimedExecutor::TimedExecutor(Options options, const text::Tokenizer& tokenizer)
    : impl_(std::make_unique<Impl>(options, tokenizer)) {}
TimedExecutor::~TimedExecutor() = default;

void TimedExecutor::on_admit(const Request& request) {
  impl_->admit(request);
}
void TimedExecutor::on_release(RequestId id) {
  impl_->release(id);
}
std::optional<Duration> TimedExecutor::duration(const StepPlan& plan) {
  return impl_->duration(plan);
}
StepResult TimedExecutor::finish(const StepPlan& plan) {
  return impl_->finish(plan);
}

}  // namespace kvist::engine
