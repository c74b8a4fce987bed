#include "kvist/analysis/pair_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace kvist::analysis {
namespace {

using workload::TurnOutcome;
using workload::TurnSample;

/// Texts of one length may be of a few tokens more or less, if a measurement's opening is one of them.
constexpr std::uint32_t kTolerantTokens = 16;
/// Requests that a gateway repeated are counted twice.
constexpr double kTolerantShare = 0.02;
/// Of the prompt tokens: less is noise in what an engine reports.
constexpr double kLeastOverdrawnShare = 0.001;

std::string warm_text(const LevelCaches& caches) {
  return fmt::format(
      "its caches were warm: {} turns report {} cached tokens more than anything sent before in this measurement can "
      "have left",
      caches.overdrawn_turns, caches.overdrawn_tokens);
}

/// Nothing if the workers took no more than the client can have sent.
std::optional<std::string> leak_of(const results::LevelRecord& level) {
  double sent = 0;
  double unknown = 0;
  std::uint32_t longest = 0;
  for (const TurnSample& turn : level.turns) {
    sent += turn.prompt_tokens;
    longest = std::max(longest, turn.prompt_tokens);
    if (turn.prompt_tokens == 0) ++unknown;
  }
  double taken = 0;
  for (const results::WorkerLevelRecord& worker : level.workers) {
    if (worker.restarts > 0) return std::nullopt;
    taken += static_cast<double>(worker.prompt_tokens);
  }
  const double most = sent * (1 + kTolerantShare) + unknown * longest;
  if (longest == 0 || taken <= most) return std::nullopt;
  return fmt::format("other load was on its workers: they took {:.0f} prompt tokens, the client sent {:.0f}", taken,
                     sent);
}

std::size_t differing(const FirstPrompts& one, const FirstPrompts& other, std::size_t& common) {
  std::size_t differ = 0;
  auto theirs = other.begin();
  for (const auto& [conversation, tokens] : one) {
    while (theirs != other.end() && theirs->first < conversation) ++theirs;
    if (theirs == other.end()) break;
    if (theirs->first != conversation) continue;
    ++common;
    const std::uint32_t apart = std::max(tokens, theirs->second) - std::min(tokens, theirs->second);
    if (apart > kTolerantTokens) ++differ;
  }
  return differ;
}

}  // namespace

FirstPrompts first_prompts(const results::LevelRecord& level) {
  FirstPrompts prompts;
  for (const TurnSample& turn : level.turns) {
    if (turn.turn == 0 && turn.prompt_tokens > 0) prompts.emplace_back(turn.conversation.value(), turn.prompt_tokens);
  }
  std::ranges::sort(prompts);
  if (prompts.size() > kMostFirstPrompts) prompts.resize(kMostFirstPrompts);
  return prompts;
}

std::vector<std::string> objections_to(const results::LevelRecord& level, const std::optional<LevelCaches>& caches) {
  std::vector<std::string> objections;
  if (caches && static_cast<double>(caches->overdrawn_tokens) >
                    kLeastOverdrawnShare * static_cast<double>(caches->bounds.prompt_tokens)) {
    objections.push_back(warm_text(*caches));
  }
  if (caches) {
    if (std::optional<std::string> leak = leak_of(level)) objections.push_back(*std::move(leak));
  }
  return objections;
}

std::vector<std::string> objections_to_pair(const Paired& baseline, const Paired& candidate,
                                            const std::pair<std::string, std::string>& names) {
  std::vector<std::string> objections;
  if (baseline.seed != candidate.seed) {
    objections.push_back(fmt::format("other seeds: {} of {}, {} of {}: they did not drive the same conversations",
                                     baseline.seed, names.first, candidate.seed, names.second));
  }
  std::size_t common = 0;
  const std::size_t differ = differing(*baseline.first_prompts, *candidate.first_prompts, common);
  if (baseline.seed == candidate.seed && differ > common / 100) {
    objections.push_back(
        fmt::format("other conversations: the first prompts of {} of {} that both drove are of "
                    "another length",
                    differ, common));
  }
  for (const std::string& text : *baseline.objections) objections.push_back(names.first + ": " + text);
  for (const std::string& text : *candidate.objections) objections.push_back(names.second + ": " + text);
  return objections;
}

}  // namespace kvist::analysis
