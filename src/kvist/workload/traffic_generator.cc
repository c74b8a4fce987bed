#include "kvist/workload/traffic_generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kvist/base/random.h"

namespace kvist::workload {
namespace {

constexpr double kMaxStarts = 1'000'000;

/// Draws requests and assigns ids to their blocks.
class TrafficDraft {
 public:
  TrafficDraft(const TrafficOptions& options, RandomStream random) : options_(options), random_(random) {}

  std::uint32_t between(std::uint32_t low, std::uint32_t high) {
    return static_cast<std::uint32_t>(random_.uniform_int(low, high));
  }
  std::uint32_t log_normal(double median, double sigma, double low, double high) {
    return static_cast<std::uint32_t>(std::clamp(std::round(median * std::exp(sigma * normal())), low, high));
  }
  double uniform() { return random_.uniform(); }
  double exponential(double mean) { return random_.exponential(mean); }

  /// New ids for `count` complete blocks.
  std::vector<std::uint64_t> new_blocks(std::uint32_t count) {
    std::vector<std::uint64_t> ids(count);
    std::iota(ids.begin(), ids.end(), next_id_);
    next_id_ += count;
    return ids;
  }
  [[nodiscard]] std::uint32_t whole_blocks(std::uint32_t tokens) const { return tokens / options_.tokens_per_hash; }
  /// A text of complete blocks with between `low` and `high` tokens, with which many requests begin.
  std::vector<std::uint64_t> shared_text(std::uint32_t low, std::uint32_t high) {
    return new_blocks(std::max(1U, whole_blocks(between(low, high))));
  }

  /// Adds a request that begins with these complete blocks; the rest of its prompt is its own.
  void add(Duration at, std::vector<std::uint64_t> blocks, std::uint32_t input_tokens, std::uint32_t output_tokens) {
    if (at >= options_.duration) return;
    const auto known = static_cast<std::uint32_t>(blocks.size());
    const std::uint32_t all = (input_tokens + options_.tokens_per_hash - 1) / options_.tokens_per_hash;
    for (const std::uint64_t id : new_blocks(all - known)) blocks.push_back(id);
    trace_.requests.push_back(
        {std::chrono::floor<std::chrono::milliseconds>(at), input_tokens, output_tokens, std::move(blocks)});
  }
  [[nodiscard]] std::uint32_t tokens(const std::vector<std::uint64_t>& blocks) const {
    return static_cast<std::uint32_t>(blocks.size()) * options_.tokens_per_hash;
  }

  /// Sorts by instant and numbers the ids in the order of their appearance.
  Trace finish() && {
    std::ranges::stable_sort(trace_.requests, {}, &TraceRequest::at);
    std::unordered_map<std::uint64_t, std::uint64_t> numbers;
    for (TraceRequest& request : trace_.requests)
      for (std::uint64_t& id : request.hash_ids) id = numbers.try_emplace(id, numbers.size()).first->second;
    return std::move(trace_);
  }

 private:
  double normal() {  // Box and Muller's
    constexpr double kTurn = 6.283185307179586;
    return std::sqrt(-2 * std::log(1 - random_.uniform())) * std::cos(kTurn * random_.uniform());
  }

  const TrafficOptions& options_;
  RandomStream random_;
  std::uint64_t next_id_ = 0;
  Trace trace_;
};

/// The requests of each start of the Poisson process.
class Source {
 public:
  Source(TrafficKind kind, TrafficDraft& draft) : kind_(kind), draft_(draft) {
    if (kind == TrafficKind::kRetrieval || kind == TrafficKind::kRetrievalQuestionFirst) draw_texts(60, 4'096, 24'576);
    if (kind == TrafficKind::kShortAnswers) draw_texts(4, 2'048, 2'048);
    if (kind == TrafficKind::kAgents) draw_texts(5, 6'144, 6'144);
    if (kind == TrafficKind::kCodeCompletion) draw_texts(200, 2'048, 15'360);
  }

  void start(Duration at) {
    switch (kind_) {
      case TrafficKind::kLongPrompts:
        draft_.add(at, {}, draft_.log_normal(4'000, 1.3, 100, 128'000), draft_.log_normal(200, 0.6, 1, 4'000));
        break;
      case TrafficKind::kRetrieval:
        behind(at, popular_text(), 100, 400, 50, 300);
        break;
      case TrafficKind::kRetrievalQuestionFirst: {
        const std::uint32_t input = draft_.tokens(popular_text()) + draft_.between(100, 400);
        draft_.add(at, {}, input, draft_.between(50, 300));
        break;
      }
      case TrafficKind::kAgents:
        converse(at);
        break;
      case TrafficKind::kCodeCompletion:
        behind(at, any_text(), 20, 500, 5, 40);
        break;
      case TrafficKind::kShortAnswers:
        behind(at, popular_text(), 20, 400, 1, 16);
        break;
      case TrafficKind::kReasoning: {
        const std::uint32_t input = draft_.between(200, 2'000);
        draft_.add(at, {}, input, draft_.between(6'000, 10'000));
        break;
      }
      case TrafficKind::kDocuments:
        documents(at);
        break;
    }
  }

 private:
  using Text = std::vector<std::uint64_t>;

  void draw_texts(std::uint32_t count, std::uint32_t low, std::uint32_t high) {
    double weight = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      texts_.push_back(draft_.shared_text(low, high));
      cumulative_.push_back(weight += 1.0 / (i + 1));
    }
  }
  const Text& any_text() { return texts_[draft_.between(0, static_cast<std::uint32_t>(texts_.size()) - 1)]; }
  const Text& popular_text() {
    const double drawn = draft_.uniform() * cumulative_.back();
    const auto place = std::ranges::upper_bound(cumulative_, drawn) - cumulative_.begin();
    return texts_[std::min(static_cast<std::size_t>(place), texts_.size() - 1)];
  }

  void behind(Duration at, const Text& text, std::uint32_t low, std::uint32_t high, std::uint32_t answer_low,
              std::uint32_t answer_high) {
    const std::uint32_t input = draft_.tokens(text) + draft_.between(low, high);
    draft_.add(at, text, input, draft_.between(answer_low, answer_high));
  }

  /// What was said in a conversation, or in a branch of one, and when it goes on.
  struct Said {
    Text blocks;
    std::uint32_t tokens = 0;
    Duration at{};
  };

  void grow(Said& said, std::uint32_t low, std::uint32_t high) {
    said.tokens += draft_.between(low, high);
    for (const std::uint64_t id : draft_.new_blocks(draft_.whole_blocks(said.tokens) - count(said.blocks)))
      said.blocks.push_back(id);
  }

  /// Asks, and goes on when the answer and what a tool did with it are there. Returns the answer's length.
  std::uint32_t ask(Said& said) {
    constexpr Duration kPerToken = std::chrono::milliseconds(30);  // the speed of the answers that the agent got
    const std::uint32_t answer = draft_.between(60, 300);
    draft_.add(said.at, said.blocks, said.tokens, answer);
    said.tokens += answer;
    said.at += answer * kPerToken + from_seconds(1 + 7 * draft_.uniform());
    return answer;
  }

  void converse(Duration at) {
    constexpr double kBranching = 0.1;
    constexpr std::uint32_t kLongest = 120'000;
    Said said{.blocks = any_text(), .at = at};
    said.tokens = draft_.tokens(said.blocks);
    const std::uint32_t turns = draft_.between(20, 60);
    for (std::uint32_t turn = 0; turn < turns && said.tokens <= kLongest; ++turn) {
      grow(said, 200, 3'000);
      if (draft_.uniform() < kBranching) {
        branch(said);
      } else {
        ask(said);
      }
    }
  }

  void branch(Said& said) {
    constexpr std::uint32_t kBranches = 3;
    Duration end = said.at;
    std::uint32_t answers = 0;
    for (std::uint32_t number = 0; number < kBranches; ++number) {
      Said branch = said;
      grow(branch, 50, 500);
      std::uint32_t answer = ask(branch);
      for (std::uint32_t more = draft_.between(0, 3); more > 0; --more) {
        grow(branch, 200, 3'000);
        answer = ask(branch);
      }
      answers += answer;
      end = std::max(end, branch.at);
    }
    said.tokens += answers;
    said.at = end;
  }

  // Shares and lengths are those of the 3,993 requests of Mooncake's trace, grouped by their first block.
  void documents(Duration at) {
    const double drawn = draft_.uniform();
    if (drawn < 0.57) {
      draft_.add(at, {}, draft_.log_normal(90, 1.4, 16, 3'900), draft_.log_normal(180, 1.1, 16, 850));
    } else if (drawn < 0.80) {
      draft_.add(at, {}, draft_.log_normal(18'000, 0.43, 4'900, 135'000), draft_.log_normal(195, 0.8, 16, 700));
    } else if (drawn < 0.82) {
      chat(at);
    } else {
      ask_again(at);
    }
  }

  void chat(Duration at) {
    constexpr double kPauseS = 80;
    std::uint32_t context = draft_.between(16, 2'800);
    Text blocks = draft_.new_blocks(draft_.whole_blocks(context));
    for (std::uint32_t turns = draft_.between(2, 8); turns > 0; --turns) {
      const std::uint32_t answer = draft_.log_normal(25, 1.3, 2, 780);
      draft_.add(at, blocks, context, answer);
      context += answer + draft_.between(5, 250);
      for (const std::uint64_t id : draft_.new_blocks(draft_.whole_blocks(context) - count(blocks)))
        blocks.push_back(id);
      at += from_seconds(draft_.exponential(kPauseS));
    }
  }

  void ask_again(Duration at) {
    constexpr double kPauseS = 80;
    constexpr double kMore = 0.90;  // the chance of a further question
    const Text text = draft_.new_blocks(draft_.whole_blocks(draft_.log_normal(21'000, 0.7, 4'900, 190'000)));
    do {
      draft_.add(at, text, draft_.tokens(text) + draft_.between(16, 500), draft_.log_normal(16, 1.45, 2, 890));
      at += from_seconds(draft_.exponential(kPauseS));
    } while (draft_.uniform() < kMore);
  }

  static std::uint32_t count(const Text& blocks) { return static_cast<std::uint32_t>(blocks.size()); }

  TrafficKind kind_;
  TrafficDraft& draft_;
  std::vector<Text> texts_;
  std::vector<double> cumulative_;
};

Result<void> check(const TrafficOptions& options) {
  if (!(options.starts_per_s > 0) || options.duration <= Duration::zero() || options.tokens_per_hash == 0) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("trace: {} starts a second over {:.3f} s with {} tokens per hash; want all above 0",
                            options.starts_per_s, to_seconds(options.duration), options.tokens_per_hash));
  }
  if (const double starts = options.starts_per_s * to_seconds(options.duration); starts > kMaxStarts) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("trace: {:.0f} starts; want at most {:.0f}", starts, kMaxStarts));
  }
  return {};
}

}  // namespace

std::string_view to_string(TrafficKind kind) {
  switch (kind) {
    case TrafficKind::kLongPrompts:
      return "long_prompts";
    case TrafficKind::kRetrieval:
      return "retrieval";
    case TrafficKind::kRetrievalQuestionFirst:
      return "retrieval_question_first";
    case TrafficKind::kAgents:
      return "agents";
    case TrafficKind::kCodeCompletion:
      return "code_completion";
    case TrafficKind::kShortAnswers:
      return "short_answers";
    case TrafficKind::kReasoning:
      return "reasoning";
    case TrafficKind::kDocuments:
      return "documents";
  }
  return "";
}

std::optional<TrafficKind> parse_traffic_kind(std::string_view name) {
  for (const TrafficKind kind : kTrafficKinds)
    if (to_string(kind) == name) return kind;
  return std::nullopt;
}

Result<Trace> generate_traffic(const TrafficOptions& options) {
  KVIST_TRY_VOID(check(options));
  TrafficDraft draft(options, RandomStream(mix_seed({options.seed, seed_part("traffic")})));
  Source source(options.kind, draft);
  RandomStream starts(mix_seed({options.seed, seed_part("traffic starts")}));
  for (Duration at{}; at < options.duration; at += from_seconds(starts.exponential(1 / options.starts_per_s)))
    source.start(at);
  return std::move(draft).finish();
}

}  // namespace kvist::workload
