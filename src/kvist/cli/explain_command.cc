// kvist explain: prints recorded routing decisions as tables and repeats each.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/input_file.h"
#include "kvist/cli/commands.h"
#include "kvist/cli/print.h"
#include "kvist/render/table.h"
#include "kvist/routing/cost_parts.h"
#include "kvist/routing/decision_json.h"
#include "kvist/routing/decision_replay.h"

namespace kvist::cli {
namespace {

using render::Align;
using routing::Candidate;
using routing::DecisionRecord;
using routing::DecisionReplay;

Result<std::string> read_all(const std::string& file) {
  if (file == "-") return read_stream(std::cin, "standard input", routing::kMaxDecisionsBytes);
  return read_file(file, routing::kMaxDecisionsBytes);
}

/// Repeats decisions and prints them.
class Explanation {
 public:
  explicit Explanation(const routing::DecisionFile& file) : file_(&file) {}

  void add_line(const DecisionRecord& record) {
    const Candidate& chosen = chosen_of(record);
    summary_.rows.push_back({record.name.empty() ? fmt::format("{}", record.request.value()) : record.name,
                             std::string(to_string(record.mode)), name_of(record.chosen),
                             fmt::format("{}", record.candidates.size() + record.left_out),
                             std::string(to_string(record.reason)), fmt::format("{:.1f}", chosen.forecast.ttft_ms),
                             milliseconds(record.after.ttft), word_of(record.after), again(record)});
  }
  void print_lines() const { print_block(render_text_table(summary_)); }

  void print_whole(const DecisionRecord& record) {
    print_line(fmt::format("request {}: decision {} at {:.3f} s, mode {}", record.name, record.number,
                           to_seconds(record.at.time_since_epoch()), to_string(record.mode)));
    print_line(fmt::format("  prompt    {} tokens, {} whole blocks of {}; session {}", record.prompt_tokens,
                           record.prompt_blocks, record.block_size,
                           record.session == 0 ? "none" : fmt::format("{:016x}", record.session)));
    if (!record.adapter.empty()) print_line("  adapter   " + record.adapter);
    if (record.session_worker) print_line("  session   was at " + name_of(*record.session_worker));
    if (!record.excluded.empty()) print_line("  tried     " + names_of(record.excluded));
    if (!record.held_back.empty()) {
      print_line(fmt::format("  held back {}: new, with as many requests before their first token as it may have",
                             names_of(record.held_back)));
    }
    print_line(fmt::format("  chosen    {} by {}; decided again: {}", name_of(record.chosen), to_string(record.reason),
                           again(record)));
    print_line("  happened  " + aftermath(record));
    print_line("");
    print_block(render_text_table(candidates_of(record)));
    if (const auto account = routing::account_of(record)) print_account(*account, record);
    if (record.left_out > 0) {
      print_line(fmt::format(
          "{} further candidates were not recorded: the recorded ones are the chosen one, those of least cost and, if "
          "none of these is without requests, one that is.",
          record.left_out));
    }
    print_line("");
  }

  [[nodiscard]] std::size_t different() const { return different_; }
  [[nodiscard]] std::size_t partial() const { return partial_; }

 private:
  [[nodiscard]] std::string name_of(WorkerId worker) const {
    const std::vector<std::string>& names = file_->worker_names;
    const bool named = worker.value() < names.size() && !names[worker.value()].empty();
    return named ? names[worker.value()] : fmt::format("worker {}", worker.value());
  }
  [[nodiscard]] std::string names_of(const std::vector<WorkerId>& workers) const {
    std::string names;
    for (const WorkerId worker : workers) names += (names.empty() ? "" : ", ") + name_of(worker);
    return names;
  }
  [[nodiscard]] static const Candidate& chosen_of(const DecisionRecord& record) {
    return record.candidates[position_of(record.candidates, record.chosen)];
  }
  [[nodiscard]] static std::string milliseconds(const std::optional<Duration>& time) {
    return time ? fmt::format("{:.1f}", to_milliseconds(*time)) : "-";
  }
  static void print_block(std::string_view text) {
    while (text.ends_with('\n')) text.remove_suffix(1);
    print_line(text);
  }

  // Repeats a decision. Returns the verdict as text and counts it.
  [[nodiscard]] std::string again(const DecisionRecord& record) {
    const DecisionReplay::Result result = replay_.decide(record);
    if (result.outcome == DecisionReplay::Outcome::kSame) return "same";
    if (result.outcome == DecisionReplay::Outcome::kPartial) {
      ++partial_;
      return "not all recorded";
    }
    ++different_;
    return name_of(result.worker);
  }

  // A request that ended at the worker although nothing failed there has the word for that, as in metrics and logs:
  // client_gone, refused. A failure is a word and what was the matter.
  [[nodiscard]] static std::string word_of(const routing::Aftermath& after) {
    const bool is_word = !after.failure.empty() && !after.failure.contains(':');
    return is_word ? after.failure : std::string(to_string(after.state));
  }
  [[nodiscard]] static std::string aftermath(const DecisionRecord& record) {
    const Candidate& chosen = chosen_of(record);
    const routing::Aftermath& after = record.after;
    std::string text = word_of(after);
    if (after.failure.contains(':')) text += fmt::format(" ({})", after.failure);
    if (after.ttft) {
      text += fmt::format("; first token after {:.1f} ms (predicted {:.1f})", to_milliseconds(*after.ttft),
                          chosen.forecast.ttft_ms);
    }
    if (after.cached_tokens) {
      text += fmt::format("; {} prompt tokens cached (predicted {})", *after.cached_tokens, chosen.cached_tokens);
    }
    if (after.duration) {
      text += fmt::format("; {} output tokens in {:.3f} s", after.output_tokens, to_seconds(*after.duration));
    }
    return text;
  }

  // Tokens; in brackets how many blocks of them are outside of device memory.
  [[nodiscard]] static std::string cached_of(const Candidate& candidate) {
    if (candidate.lower_tier_blocks == 0) return fmt::format("{}", candidate.cached_tokens);
    return fmt::format("{} ({} blocks lower)", candidate.cached_tokens, candidate.lower_tier_blocks);
  }

  [[nodiscard]] render::Table candidates_of(const DecisionRecord& record) const {
    render::Table table;
    table.columns = {{"", Align::kLeft}, {"worker", Align::kLeft}};
    for (const char* title :
         {"cost", "cached", "trust", "new blocks", "requests", "decoding", "prefill tokens", "blocks", "slot",
          "wait ms", "queue ms", "prefill ms", "TTFT ms", "step ms", "step with ms", "crowding ms", "session ms"}) {
      table.columns.push_back({title, Align::kCenter});
    }
    for (const Candidate& c : record.candidates) {
      const routing::Forecast& f = c.forecast;
      std::vector<std::string> row = {c.worker == record.chosen ? "*" : "",
                                      name_of(c.worker),
                                      fmt::format("{:.3f}", c.cost),
                                      cached_of(c),
                                      std::string(to_string(c.trust)),
                                      fmt::format("{}", c.new_blocks),
                                      fmt::format("{}", c.load.requests),
                                      fmt::format("{}", c.load.decoding),
                                      fmt::format("{}", c.load.prefill_tokens),
                                      fmt::format("{}", c.load.prompt_blocks),
                                      f.has_slot ? "yes" : "no"};
      for (const double ms : {f.slot_wait_ms, f.queue_ms, f.prefill_ms, f.ttft_ms, f.step_ms, f.step_with_ms,
                              f.crowding_ms, c.affinity_ms}) {
        row.push_back(fmt::format("{:.1f}", ms));
      }
      table.rows.push_back(std::move(row));
    }
    return table;
  }

  // Why the chosen worker need not be the cheapest, and what each cost is for.
  void print_account(const routing::CostAccount& account, const DecisionRecord& record) const {
    print_line("");
    print_line(
        fmt::format("The costs in ms. For each worker {:.2f} requests wait for their first token. Costs of up to "
                    "{:.3f} count as equal: the deeper cache has the request, then whoever has fewer that wait.",
                    account.waiting, account.most_in_tie));
    render::Table table;
    table.columns = {{"", Align::kLeft}, {"worker", Align::kLeft}};
    for (const char* title : {"cost", "its TTFT", "queue", "for who waits", "displaced", "computed again", "held up",
                              "who decodes", "answer", "scarcity", "session"})
      table.columns.push_back({title, Align::kCenter});
    for (const routing::CostParts& parts : account.parts) {
      std::vector<std::string> row = {parts.worker == record.chosen ? "*" : "", name_of(parts.worker),
                                      fmt::format("{:.3f}", parts.sum())};
      for (const double ms :
           {parts.ttft_ms, parts.queue_ms, parts.occupation_ms, parts.displaced_ms, parts.recomputed_ms,
            parts.held_up_ms, parts.interruption_ms, parts.answer_ms, parts.scarcity_ms, parts.session_ms})
        row.push_back(fmt::format("{:.1f}", ms));
      table.rows.push_back(std::move(row));
    }
    print_block(render_text_table(table));
  }

  const routing::DecisionFile* file_;
  DecisionReplay replay_;
  std::size_t different_ = 0;
  std::size_t partial_ = 0;
  render::Table summary_{.columns = {{"request", Align::kLeft},
                                     {"mode", Align::kLeft},
                                     {"chosen", Align::kLeft},
                                     {"of"},
                                     {"reason", Align::kLeft},
                                     {"TTFT ms: predicted"},
                                     {"observed"},
                                     {"state", Align::kLeft},
                                     {"decided again", Align::kLeft}},
                         .rows = {}};
};

}  // namespace

Result<void> run_explain(const ExplainArguments& arguments) {
  KVIST_TRY(const std::string text, read_all(arguments.file));
  auto file = routing::read_decisions(text);
  if (!file) return std::unexpected(std::move(file).error().in(arguments.file));
  Explanation explanation(*file);
  std::size_t count = 0;
  for (const DecisionRecord& record : file->decisions) {
    if (!arguments.request.empty() && record.name != arguments.request) continue;
    ++count;
    if (arguments.request.empty()) {
      explanation.add_line(record);
    } else {
      explanation.print_whole(record);
    }
  }
  if (count == 0 && !arguments.request.empty()) {
    return fail(ErrorCode::kNotFound, fmt::format("{}: no decision of request \"{}\" among {}", arguments.file,
                                                  arguments.request, file->decisions.size()));
  }
  if (arguments.request.empty()) explanation.print_lines();
  const std::size_t different = explanation.different();
  print_line(fmt::format("{} decisions: {} decided again the same, {} otherwise, {} not recorded in full", count,
                         count - different - explanation.partial(), different, explanation.partial()));
  if (different == 0) return {};
  return fail(ErrorCode::kCorrupt, fmt::format("{} of {} decisions come out otherwise when decided again: another "
                                               "version made them, or the file was changed",
                                               different, count));
}

}  // namespace kvist::cli
