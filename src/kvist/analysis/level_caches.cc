#include "kvist/analysis/level_caches.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "kvist/base/random.h"
#include "kvist/perfmodel/step_time_model.h"
#include "kvist/workload/conversation.h"
#include "kvist/workload/dataset.h"

namespace kvist::analysis {
namespace {

using workload::TurnOutcome;
using workload::TurnSample;

/// Prompts of different texts may begin alike by the tokens that a chat template puts in front.
constexpr std::uint64_t kTemplateTokens = 64;

/// The beginning of a conversation: which it is, and how much of it its group has in common.
struct Beginning {
  std::uint64_t key = 0;
  std::uint64_t group_key = 0;  // 0: no group
  std::size_t group_bytes = 0;
  std::size_t bytes = 0;
};

Beginning beginning_of(const spec::WorkloadSpec& workload, const workload::Dataset& dataset, std::uint64_t seed,
                       ConversationId id) {
  const workload::Conversation conversation(workload, dataset, seed, id);
  const std::string& text = conversation.messages().front().content;
  Beginning beginning{.key = mix_seed({seed_part("beginning"), seed_part(text)}), .bytes = text.size()};
  const std::string_view prefix = dataset.prefix_of(id);
  if (!prefix.empty() && prefix.size() < text.size()) {
    beginning.group_key = mix_seed({seed_part("group"), seed_part(prefix)});
    beginning.group_bytes = prefix.size();
  }
  return beginning;
}

/// A conversation as its turns come: the extents of the prompt so far.
struct Course {
  Beginning beginning;
  std::vector<Extent> extents;
  std::uint64_t blocks = 0;  // of all extents
  std::uint32_t next_turn = 0;

  void extend_to(std::uint64_t end, std::uint64_t key) {
    if (end <= blocks) return;
    extents.push_back({.key = key, .blocks = static_cast<std::uint32_t>(end - blocks)});
    blocks = end;
  }
};

/// The first `blocks` blocks of the extents.
std::vector<Extent> first_of(const std::vector<Extent>& extents, std::uint64_t blocks) {
  std::vector<Extent> first;
  for (const Extent& extent : extents) {
    if (blocks == 0) break;
    const auto taken = static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, extent.blocks));
    first.push_back({.key = extent.key, .blocks = taken});
    blocks -= taken;
  }
  return first;
}

/// Follows the conversations of one level.
class Courses {
 public:
  Courses(const results::LevelRecord& level, const CacheContext& context)
      : level_(level), context_(context), dataset_(context.workload, level.seed) {}

  /// Returns nothing for a turn whose prompt is not known.
  std::optional<OracleRequest> request_of(const TurnSample& turn) {
    Course& course = course_of(turn);
    if (turn.turn != course.next_turn) return std::nullopt;
    ++course.next_turn;
    const std::uint64_t tokens = tokens_of(turn, course);
    if (tokens == 0) return std::nullopt;
    const std::uint64_t size = context_.block_size;
    add_prompt(course, turn, tokens);
    OracleRequest request{.sent = turn.sent,
                          .answered = turn.first_token == TimePoint{} ? turn.ended : turn.first_token,
                          .worker = worker_of(turn.worker),
                          .prompt = first_of(course.extents, (tokens - 1) / size),
                          .leaves = {}};
    if (context_.replies_live) {
      // The token that ends a turn may follow the answer in the next prompt and in the cache.
      course.extend_to((tokens + turn.output_tokens() + 1) / size, key_of(turn, "answer"));
    }
    const std::size_t told = request.prompt.empty() ? 0 : request.prompt.size() - 1;
    request.leaves.assign(course.extents.begin() + static_cast<std::ptrdiff_t>(told), course.extents.end());
    return request;
  }

 private:
  Course& course_of(const TurnSample& turn) {
    const auto [entry, is_new] = courses_.try_emplace(turn.conversation.value());
    if (is_new) {
      entry->second.beginning = beginning_of(context_.workload, dataset_, level_.seed, turn.conversation);
    }
    return entry->second;
  }

  /// Of a first turn that failed, those of another with the same text.
  std::uint64_t tokens_of(const TurnSample& turn, const Course& course) {
    if (turn.turn > 0) return turn.prompt_tokens;
    std::uint64_t& known = first_tokens_[course.beginning.key];
    if (turn.prompt_tokens > 0) known = turn.prompt_tokens;
    return known;
  }

  void add_prompt(Course& course, const TurnSample& turn, std::uint64_t tokens) const {
    const std::uint64_t size = context_.block_size;
    if (turn.turn > 0) return course.extend_to(tokens / size, key_of(turn, "prompt"));
    const Beginning& beginning = course.beginning;
    if (beginning.group_key != 0) course.extend_to(group_tokens(beginning, tokens) / size, beginning.group_key);
    course.extend_to(tokens / size, beginning.key);
  }

  /// The most tokens that the group's text and what is in front of it can be.
  [[nodiscard]] static std::uint64_t group_tokens(const Beginning& beginning, std::uint64_t tokens) {
    const bool by_bytes = tokens >= beginning.bytes && tokens <= beginning.bytes + kTemplateTokens;
    const std::uint64_t own = beginning.bytes - beginning.group_bytes;
    if (by_bytes) return std::min(tokens, tokens - own);
    return std::min(tokens, kTemplateTokens + tokens * beginning.group_bytes / beginning.bytes);
  }

  [[nodiscard]] static std::uint64_t key_of(const TurnSample& turn, std::string_view part) {
    return mix_seed({seed_part(part), turn.conversation.value(), turn.turn});
  }

  [[nodiscard]] std::size_t worker_of(const std::string& name) {
    const auto known = std::ranges::find(context_.workers, name);
    if (known != context_.workers.end()) return static_cast<std::size_t>(known - context_.workers.begin());
    if (!context_.worker_blocks.empty()) return 0;  // nobody said which: of sizes that are known, any will do
    return others_.try_emplace(name, context_.workers.size() + others_.size()).first->second;
  }

  const results::LevelRecord& level_;
  const CacheContext& context_;
  const workload::Dataset dataset_;
  std::unordered_map<std::uint64_t, Course> courses_;              // by conversation; only looked up
  std::unordered_map<std::uint64_t, std::uint64_t> first_tokens_;  // by beginning; only looked up
  std::map<std::string, std::size_t> others_;
};

void find_overdrawn(const std::vector<OracleRequest>& requests, const std::vector<const TurnSample*>& turns,
                    std::uint32_t block_size, LevelCaches& caches) {
  const std::vector<std::uint64_t> most = findable(requests);
  const std::uint64_t tolerance = std::max<std::uint64_t>(kTemplateTokens, 2ULL * block_size);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!requests[i].counts) continue;
    const std::uint64_t allowed = most[i] * block_size + tolerance;
    if (turns[i]->cached_tokens <= allowed) continue;
    ++caches.overdrawn_turns;
    caches.overdrawn_tokens += turns[i]->cached_tokens - allowed;
  }
}

}  // namespace

CacheContext cache_context(const spec::SweepSpec& sweep) {
  CacheContext context{.workload = sweep.workload,
                       .replies_live = sweep.comparison.replies == spec::ArmReplies::kLive &&
                                       sweep.workload.replies == spec::Replies::kLive,
                       .goes_on = sweep.method.between_levels == spec::BetweenLevels::kContinue,
                       .block_size = sweep.deployment.gateway.block_size,
                       .workers = {},
                       .worker_blocks = {}};
  if (sweep.target.is_given()) {
    context.block_size = sweep.target.block_size;
    return context;
  }
  for (const spec::WorkerSpec& worker : sweep.deployment.workers) {
    const Result<spec::WorkerSpec> resolved = perfmodel::resolve(worker);
    const spec::WorkerSpec& known = resolved ? *resolved : worker;
    context.workers.push_back(known.name);
    context.worker_blocks.push_back(known.kv_blocks);
    context.block_size = known.block_size;
  }
  return context;
}

std::optional<LevelCaches> level_caches(const results::LevelRecord& level, const CacheContext& context) {
  if (context.goes_on || context.block_size == 0 || !context.workload.trace.file.empty()) return std::nullopt;
  std::vector<const TurnSample*> turns;
  for (const TurnSample& turn : level.turns) {
    // The load of a simulated level begins at this instant, so that it is one of sending there.
    if (turn.sent != TimePoint{} || level.started == TimePoint{}) turns.push_back(&turn);
  }
  std::ranges::stable_sort(turns, {}, [](const TurnSample* turn) { return turn->sent; });
  Courses courses(level, context);
  std::vector<OracleRequest> requests;
  std::vector<const TurnSample*> known;
  std::uint64_t prompt_tokens = 0;
  for (const TurnSample* turn : turns) {
    std::optional<OracleRequest> request = courses.request_of(*turn);
    if (!request) continue;
    // Like the hit rate beside which the bounds stand: a failed turn's prompt is in neither, nor one of unknown length.
    request->counts = turn->outcome == TurnOutcome::kSucceeded && turn->prompt_tokens > 0;
    if (request->counts) prompt_tokens += turn->prompt_tokens;
    requests.push_back(*std::move(request));
    known.push_back(turn);
  }
  if (prompt_tokens == 0) return std::nullopt;
  LevelCaches caches{.bounds = cache_bounds(requests, context.block_size, context.worker_blocks)};
  caches.bounds.prompt_tokens = prompt_tokens;
  find_overdrawn(requests, known, context.block_size, caches);
  return caches;
}

}  // namespace kvist::analysis
