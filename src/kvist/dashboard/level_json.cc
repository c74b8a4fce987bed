// A stored level over time: what its turns and its workers' timelines tell.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "kvist/base/json_writer.h"
#include "kvist/dashboard/conversations.h"
#include "kvist/dashboard/json_fields.h"
#include "kvist/dashboard/live_window.h"
#include "kvist/dashboard/run_library.h"

namespace kvist::dashboard {
namespace {

constexpr std::int64_t kMostSeconds = 86'400;
constexpr std::size_t kMostConversations = 1'000;

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
    std::ranges::sort(by_start_, {}, &workload::TurnSample::sent);
    std::ranges::sort(by_first_token_, {}, &workload::TurnSample::first_token);
  }

  /// Requires: calls in the order of time.
  [[nodiscard]] LiveFigures figures_at(TimePoint now) {
    workload::LoadBatch batch;
    for (; starts_ < by_start_.size() && by_start_[starts_]->sent <= now; ++starts_)
      if (by_start_[starts_]->turn == 0) batch.conversation_starts.push_back(by_start_[starts_]->sent);
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
    return window_.figures(now, static_cast<std::uint32_t>(starts_ - ends_), now - level_.started);
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
  for (std::int64_t second = 1; second <= seconds; ++second) {
    rows.push_back(replay.figures_at(level.started + std::chrono::seconds(second)));
  }
  json.key("t_s").begin_array();
  for (std::int64_t second = 1; second <= seconds; ++second) json.value(second);
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

/// All timelines of a level have the same instants; a longer one than a day is thinned.
void write_timelines(JsonWriter& json, const results::LevelRecord& level) {
  const auto& lines = level.timelines;
  json.key("worker_t_s");
  if (lines.empty()) {
    json.null().key("workers").begin_object().end_object();
    return;
  }
  constexpr std::size_t kMostPoints = 5'000;
  const std::size_t step = 1 + (lines.front().points.size() / kMostPoints);
  json.begin_array();
  for (std::size_t i = 0; i < lines.front().points.size(); i += step)
    figure_value(json, to_seconds(lines.front().points[i].at - level.started));
  json.end_array().key("workers").begin_object();
  for (const results::WorkerTimeline& line : lines) {
    const auto column = [&](std::string_view name, auto value) {
      json.key(name).begin_array();
      for (std::size_t i = 0; i < line.points.size(); i += step)
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

void write_conversations(JsonWriter& json, const results::LevelRecord& level) {
  std::map<ConversationId, ShownConversation> all;
  for (const workload::TurnSample& turn : level.turns) {
    if (all.size() == kMostConversations && !all.contains(turn.conversation)) continue;
    ShownConversation& conversation = all[turn.conversation];
    conversation.id = turn.conversation;
    conversation.texts_kept = false;
    conversation.turns.push_back({.turn = turn.turn, .ended = true, .sample = turn, .begun = turn.sent});
  }
  // Instants within a level are of its own clock.
  const UnixMs from_start = [&](TimePoint at) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(at - level.started).count();
  };
  json.key("conversations").begin_array();
  for (auto& [id, conversation] : all) {
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
