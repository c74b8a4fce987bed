#include "kvist/report/timeline_csv.h"

#include <fmt/format.h>

#include <iterator>

namespace kvist::report {
namespace {

/// A name as a CSV field (RFC 4180): quoted where it must be.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

std::string timeline_csv_head() {
  return "mode,concurrency,repetition,worker,second,running,slots,waiting,kv_blocks_used,kv_blocks,evictions,"
         "preemptions,prefill_backlog_tokens,step_ms\n";
}

void append_timeline_csv(std::string& out, const results::LevelRecord& level) {
  for (const results::WorkerTimeline& timeline : level.timelines) {
    const std::string head = fmt::format("{},{},{},{}", spec::to_string(level.mode), level.concurrency,
                                         level.repetition, field(timeline.worker));
    for (const results::TimelinePoint& p : timeline.points) {
      fmt::format_to(std::back_inserter(out), "{},{:.3f},{},{},{},{},{},{},{},{},{:.3f}\n", head,
                     to_seconds(p.at - level.started), p.running, timeline.max_batch_size, p.waiting, p.kv_blocks_used,
                     timeline.kv_blocks, p.evictions, p.preemptions, p.prefill_backlog_tokens,
                     static_cast<double>(p.step_ms));
    }
  }
}

}  // namespace kvist::report
