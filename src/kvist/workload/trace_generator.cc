#include "kvist/workload/trace_generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "kvist/base/random.h"
#include "kvist/workload/drawn_count.h"
#include "kvist/workload/load_driver.h"

namespace kvist::workload {
namespace {

constexpr std::uint64_t kMaxRequests = 10'000'000;

/// A request before its blocks have ids.
struct Draft {
  Duration at{};
  std::uint32_t conversation = 0;
  std::uint32_t turn = 0;
  std::uint32_t starter = 0;
  std::uint32_t input_tokens = 0;
  std::uint32_t output_tokens = 0;
};

/// Lengths of answers. A workload has limits only; of one that names nothing but the greatest, answers end by
/// themselves somewhere below it.
spec::BoundedCount answer_tokens_of(const TraceOptions& options) {
  const spec::WorkloadSpec& w = options.workload;
  const bool is_greatest_only = w.max_tokens_min == 0 && w.answer_law.kind == spec::CountLawKind::kUniform;
  if (!is_greatest_only || w.ignore_eos) return w.answer_tokens();
  return {.low = std::min(options.output_tokens_min, w.max_tokens), .high = w.max_tokens, .law = {}};
}

/// One conversation. Each turn's prompt is the complete history.
class ConversationDraft {
 public:
  ConversationDraft(const TraceOptions& options, const std::vector<std::uint32_t>& starter_tokens,
                    std::uint32_t conversation, Duration begins)
      : options_(options), conversation_(conversation), at_(begins) {
    RandomStream random(mix_seed({options.workload.seed, seed_part("trace conversation"), conversation}));
    turns_ = draw(options.workload.turns(), random);
    starter_ = static_cast<std::uint32_t>(random.uniform_int(0, std::ssize(starter_tokens) - 1));
    input_tokens_ = starter_tokens[starter_];
    random_ = random;
  }

  void append_to(std::vector<Draft>& out) {
    const spec::BoundedCount answers = answer_tokens_of(options_);
    for (std::uint32_t turn = 0; turn < turns_; ++turn) {
      const std::uint32_t output = draw(answers, random_);
      const Duration at = std::chrono::floor<std::chrono::milliseconds>(at_);  // the resolution of Mooncake's traces
      out.push_back({at, conversation_, turn, starter_, input_tokens_, output});
      at_ += options_.time_to_first_token + output * options_.time_per_token +
             from_seconds(random_.exponential(to_seconds(options_.think_time)));
      input_tokens_ += output + draw(options_.workload.follow_up_tokens(), random_);
    }
  }

 private:
  const TraceOptions& options_;
  std::uint32_t conversation_;
  Duration at_;
  std::uint32_t turns_ = 0;
  std::uint32_t starter_ = 0;
  std::uint32_t input_tokens_ = 0;
  RandomStream random_{0};
};

/// Numbers blocks by their content in the order in which they first appear.
class BlockIds {
 public:
  BlockIds(std::uint32_t tokens_per_hash, const std::vector<std::uint32_t>& starter_tokens)
      : tokens_per_hash_(tokens_per_hash), starter_tokens_(starter_tokens) {}

  [[nodiscard]] std::vector<std::uint64_t> of(const Draft& draft) {
    std::vector<std::uint64_t> ids;
    std::uint32_t begin = 0;
    for (; begin + tokens_per_hash_ <= draft.input_tokens; begin += tokens_per_hash_) {
      ids.push_back(complete(draft, begin));
    }
    if (begin < draft.input_tokens) ids.push_back(incomplete(draft, begin));
    return ids;
  }

 private:
  enum class Kind : std::uint8_t { kStarter, kConversation, kStarterEnd };

  /// A block that ends within the starter is shared by all conversations with that starter.
  std::uint64_t complete(const Draft& draft, std::uint32_t begin) {
    const bool shared = begin + tokens_per_hash_ <= starter_tokens_[draft.starter];
    return shared ? number(Kind::kStarter, draft.starter, begin)
                  : number(Kind::kConversation, draft.conversation, begin);
  }
  std::uint64_t incomplete(const Draft& draft, std::uint32_t begin) {
    return draft.turn == 0 ? number(Kind::kStarterEnd, draft.starter, begin) : next_++;
  }
  std::uint64_t number(Kind kind, std::uint32_t owner, std::uint32_t begin) {
    const auto [entry, is_new] = ids_.try_emplace({kind, owner, begin}, next_);
    if (is_new) ++next_;
    return entry->second;
  }

  std::uint32_t tokens_per_hash_;
  const std::vector<std::uint32_t>& starter_tokens_;
  std::map<std::tuple<Kind, std::uint32_t, std::uint32_t>, std::uint64_t> ids_;
  std::uint64_t next_ = 0;
};

Result<void> check(const TraceOptions& options) {
  KVIST_TRY_VOID(check_workload(options.workload));
  if (options.workload.target_rps == 0) {
    return fail(ErrorCode::kInvalidArgument, "workload: target_rps is 0; a trace needs a rate of conversations");
  }
  const spec::WorkloadSpec& w = options.workload;
  if (options.conversations == 0) return fail(ErrorCode::kInvalidArgument, "trace: conversations is 0; want 1 or more");
  if (w.prefix_groups != 0) {
    return fail(ErrorCode::kInvalidArgument, "trace: prefix_groups are not drawn into traces; leave them out");
  }
  if (w.starters == 0) return fail(ErrorCode::kInvalidArgument, "trace: starters is 0; want 1 or more");
  if (options.think_time <= Duration::zero() || options.time_per_token < Duration::zero() ||
      options.time_to_first_token < Duration::zero()) {
    return fail(ErrorCode::kInvalidArgument, "trace: times must not be negative, and think_time above 0");
  }
  if (std::uint64_t{options.conversations} * w.turns_max > kMaxRequests) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("trace: {} conversations of up to {} turns; want at most {} "
                                                         "requests",
                                                         options.conversations, w.turns_max, kMaxRequests));
  }
  constexpr std::uint64_t kMaxPromptTokens = 16U << 20;  // the bound of the trace format
  if (spec::longest_request_tokens(w) > kMaxPromptTokens) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("trace: a conversation may come to {} tokens; want at most {}",
                                                         spec::longest_request_tokens(w), kMaxPromptTokens));
  }
  return {};
}

}  // namespace

Result<Trace> generate_trace(const TraceOptions& options) {
  KVIST_TRY_VOID(check(options));
  const spec::WorkloadSpec& w = options.workload;
  RandomStream random(mix_seed({w.seed, seed_part("trace")}));
  std::vector<std::uint32_t> starter_tokens(w.starters);
  for (std::uint32_t& tokens : starter_tokens) tokens = draw(w.starter_tokens(), random);

  std::vector<Draft> drafts;
  Duration begins{};
  for (std::uint32_t conversation = 0; conversation < options.conversations; ++conversation) {
    ConversationDraft(options, starter_tokens, conversation, begins).append_to(drafts);
    begins += from_seconds(random.exponential(1 / w.target_rps));
  }
  std::ranges::sort(drafts, {}, [](const Draft& d) { return std::tuple(d.at, d.conversation, d.turn); });

  BlockIds ids(w.trace.tokens_per_hash == 0 ? kTokensPerHash : w.trace.tokens_per_hash, starter_tokens);
  Trace trace;
  trace.requests.reserve(drafts.size());
  for (const Draft& draft : drafts)
    trace.requests.push_back({draft.at, draft.input_tokens, draft.output_tokens, ids.of(draft)});
  return trace;
}

}  // namespace kvist::workload
