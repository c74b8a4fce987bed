// A stored level over time: what its turns and its workers' timelines tell.
#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "kvist/base/json_writer.h"
#include "kvist/dashboard/conversations.h"
#include "kvist/dashboard/json_fields.h"
#include "kvist/dashboard/live_window.h"
#include "kvist/dashboard/run_library.h"

namespace kvist::dashboard {
namespace {

// One message has to be well below what a viewer may leave unread; a longer one would cost it its connection.
constexpr std::int64_t kMostSeconds = 86'400;
constexpr std::int64_t kLevelInstants = 3'600;
constexpr std::size_t kMostConversations = 1'000;
constexpr std::size_t kLevelTurns = 10'000;
constexpr std::size_t kLevelWorkers = 64;
constexpr std::size_t kLevelWorkerValues = 250'000;

/// When a turn that was never sent, because no connection came about, was due.
TimePoint begun_of(const results::LevelRecord& level, const workload::TurnSample& turn) {
  // Virtual time begins at 0, so that in simulated levels 0 is a valid instant.
  const bool was_sent = turn.sent != TimePoint{} || level.started == TimePoint{};
  return was_sent ? turn.sent : turn.intended;
}

/// Figures of the window before each second, from the turns.
class TurnReplay {
 public:
  explicit TurnReplay(const results::LevelRecord& level) : level_(level) {
    for (const workload::TurnSample& turn : level.turns) {
      by_end_.push_back(&turn);
      by_start_.push_back(&turn);
      if (turn.first_token != TimePoint{}) by_first_token_.push_back(&turn);
    }
    std::ranges::sort(by_end_, {}, &workload::TurnSample::ended);
    const auto begun = [&level](const workload::TurnSample* turn) { return begun_of(level, *turn); };
    std::ranges::sort(by_start_, {}, begun);
    std::ranges::sort(by_first_token_, {}, &workload::TurnSample::first_token);
  }

  /// Requires: calls in the order of time.
  [[nodiscard]] LiveFigures figures_at(TimePoint now) {
    workload::LoadBatch batch;
    for (; starts_ < by_start_.size() && begun_of(level_, *by_start_[starts_]) <= now; ++starts_)
      if (by_start_[starts_]->turn == 0) batch.conversation_starts.push_back(begun_of(level_, *by_start_[starts_]));
    for (; first_tokens_ < by_first_token_.size() && by_first_token_[first_tokens_]->first_token <= now;
         ++first_tokens_) {
      const workload::TurnSample& turn = *by_first_token_[first_tokens_];
      batch.first_tokens.push_back({.at = turn.first_token, .ttft = turn.first_token - turn.sent});
    }
    for (; ends_ < by_end_.size() && by_end_[ends_]->ended <= now; ++ends_) {
      const workload::TurnSample& turn = *by_end_[ends_];
      batch.chunks.push_back({.at = turn.ended, .count = turn.output_tokens()});
      batch.ended.push_back({.sample = turn, .answer = {}});
      batch.ended.back().sample.chunks = turn.completion_tokens;  // counted above
    }
    window_.add(batch, now);
    const std::size_t in_flight = starts_ - std::min(starts_, ends_);
    return window_.figures(now, static_cast<std::uint32_t>(in_flight), now - level_.started);
  }

 private:
  const results::LevelRecord& level_;
  std::vector<const workload::TurnSample*> by_end_, by_start_, by_first_token_;
  std::size_t starts_ = 0, first_tokens_ = 0, ends_ = 0;
  LiveWindow window_;
};

void write_series(JsonWriter& json, const results::LevelRecord& level, std::int64_t seconds) {
  TurnReplay replay(level);
  std::vector<LiveFigures> rows;
  const std::int64_t step = 1 + (seconds / kLevelInstants);
  json.key("t_s").begin_array();
  for (std::int64_t second = step; second <= seconds; second += step) {
    rows.push_back(replay.figures_at(level.started + std::chrono::seconds(second)));
    json.value(second);
  }
  json.end_array().key("series").begin_object();
  for (std::size_t i = 0; i < kLiveFigures; ++i) {
    if (std::ranges::none_of(rows, [&](const LiveFigures& row) { return row[i].has_value(); })) continue;
    json.key(kLiveKeys[i]).begin_array();
    for (const LiveFigures& row : rows) {
      if (row[i]) {
        figure_value(json, *row[i]);
      } else {
        json.null();
      }
    }
    json.end_array();
  }
  json.end_object();
}

/// All timelines of a level have the same instants; long ones are thinned.
void write_timelines(JsonWriter& json, const results::LevelRecord& level) {
  const std::span lines(level.timelines.data(), std::min(level.timelines.size(), kLevelWorkers));
  json.key("worker_t_s");
  if (lines.empty()) {
    json.null().key("workers").begin_object().end_object();
    return;
  }
  constexpr std::size_t kTimelineColumns = 5;
  const std::size_t most_points = kLevelWorkerValues / (lines.size() * kTimelineColumns);
  const std::size_t step = 1 + (lines.front().points.size() / most_points);
  json.begin_array();
  for (std::size_t i = 0; i < lines.front().points.size(); i += step)
    figure_value(json, to_seconds(lines.front().points[i].at - level.started));
  json.end_array().key("workers").begin_object();
  for (const results::WorkerTimeline& line : lines) {
    const auto column = [&](std::string_view name, auto value) {
      json.key(name).begin_array();
      for (std::size_t i = 0; i < std::min(line.points.size(), lines.front().points.size()); i += step)
        figure_value(json, static_cast<double>(value(line.points[i])));
      json.end_array();
    };
    json.key(line.worker).begin_object();
    column("slots_used", [](const results::TimelinePoint& point) { return point.running; });
    column("queue", [](const results::TimelinePoint& point) { return point.waiting; });
    column("kv_blocks_used", [](const results::TimelinePoint& point) { return point.kv_blocks_used; });
    column("prefill_backlog_tokens", [](const results::TimelinePoint& point) { return point.prefill_backlog_tokens; });
    column("step_ms", [](const results::TimelinePoint& point) { return point.step_ms; });
    json.end_object();
  }
  json.end_object();
}

struct LevelConversations {
  std::map<ConversationId, ShownConversation> shown;
  std::size_t total = 0;
};

/// The first ones with all of their turns, as many as there is room for.
LevelConversations conversations_of(const results::LevelRecord& level) {
  std::map<ConversationId, std::size_t> turns;
  std::vector<ConversationId> order;
  for (const workload::TurnSample& turn : level.turns)
    if (turns[turn.conversation]++ == 0) order.push_back(turn.conversation);
  LevelConversations made{.shown = {}, .total = order.size()};
  std::size_t taken = 0;
  for (const ConversationId id : order) {
    taken += turns[id];
    if (made.shown.size() == kMostConversations || (taken > kLevelTurns && !made.shown.empty())) break;
    made.shown[id] = {.id = id, .texts_kept = false};
  }
  for (const workload::TurnSample& turn : level.turns) {
    const auto found = made.shown.find(turn.conversation);
    if (found == made.shown.end() || found->second.turns.size() == kLevelTurns) continue;
    found->second.turns.push_back({.turn = turn.turn, .ended = true, .sample = turn, .begun = begun_of(level, turn)});
  }
  return made;
}

void write_conversations(JsonWriter& json, const results::LevelRecord& level) {
  LevelConversations conversations = conversations_of(level);
  // Instants within a level are of its own clock.
  const UnixMs from_start = [&](TimePoint at) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(at - level.started).count();
  };
  json.field("conversations_total", conversations.total).key("conversations").begin_array();
  for (auto& [id, conversation] : conversations.shown) {
    std::ranges::sort(conversation.turns, {}, &ShownTurn::turn);
    json.begin_object();
    write_conversation(json, conversation, true, level.measure_to, from_start);
    json.end_object();
  }
  json.end_array();
}

}  // namespace

std::string level_json(std::string_view run, std::int64_t id, const results::LevelRecord& level) {
  TimePoint end = level.measure_to;
  for (const workload::TurnSample& turn : level.turns) end = std::max(end, turn.ended);
  const auto length = std::chrono::duration_cast<std::chrono::seconds>(end - level.started).count() + 1;
  const std::int64_t seconds = std::clamp<std::int64_t>(length, 0, kMostSeconds);
  JsonWriter json;
  json.begin_object().field("run", run).field("level", id).field("mode", spec::to_string(level.mode));
  json.field("concurrency", level.concurrency).field("repetition", level.repetition);
  json.field("measure_from_s", to_seconds(level.measure_from - level.started));
  json.field("measure_to_s", to_seconds(level.measure_to - level.started));
  write_series(json, level, seconds);
  write_timelines(json, level);
  write_conversations(json, level);
  json.end_object();
  return json.take();
}

}  // namespace kvist::dashboard
