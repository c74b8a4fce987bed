#include "kvist/workload/trace_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

#include "kvist/workload/trace_fields.h"

namespace kvist::workload {
namespace {

constexpr std::uint32_t kBailianTokensPerHash = 16;

void sort_by_instant(std::vector<TraceLine>& lines) {
  std::ranges::stable_sort(lines, {}, [](const TraceLine& line) { return line.request.at; });
}

/// That no chain of parents leads back to where it began, and each named parent is one row.
Result<void> check_parents(const std::vector<TraceLine>& lines, const TraceLineParser& parser) {
  constexpr std::size_t kNoRow = ~std::size_t{0};
  std::unordered_map<std::uint64_t, std::size_t> rows;
  std::unordered_map<std::uint64_t, std::size_t> again;
  for (std::size_t row = 0; row < lines.size(); ++row) {
    if (!rows.try_emplace(*lines[row].chat, row).second) again.try_emplace(*lines[row].chat, row);
  }
  const auto parent_of = [&](std::size_t row) {
    if (!lines[row].parent_chat) return kNoRow;
    const auto parent = rows.find(*lines[row].parent_chat);
    return parent == rows.end() ? kNoRow : parent->second;
  };
  std::vector<std::size_t> walked(lines.size(), kNoRow);  // from which row on a walk came by
  for (std::size_t row = 0; row < lines.size(); ++row) {
    if (const std::size_t parent = parent_of(row); parent != kNoRow) {
      if (const auto other = again.find(*lines[parent].chat); other != again.end()) {
        return parser.invalid(lines[other->second].number,
                              fmt::format("chat_id: that of line {} too, so the parent_chat_id of line {} names two "
                                          "rows; want one",
                                          lines[parent].number, lines[row].number));
      }
    }
    std::size_t at = row;
    for (; at != kNoRow && walked[at] == kNoRow; at = parent_of(at)) walked[at] = row;
    if (at != kNoRow && walked[at] == row) {
      return parser.invalid(lines[at].number,
                            "parent_chat_id: leads back to this row; want that of an earlier turn, or -1");
    }
  }
  return {};
}

/// By chat_id and parent_chat_id. A turn whose parent is not in the trace is a first one.
Result<Trace> linked_by_chat(std::vector<TraceLine> lines, const TraceLineParser& parser) {
  KVIST_TRY_VOID(check_parents(lines, parser));
  sort_by_instant(lines);
  Trace trace{.requests = {}, .tokens_per_hash = kBailianTokensPerHash};
  std::unordered_map<std::uint64_t, std::uint32_t> places;
  for (TraceLine& line : lines) {
    const auto place = static_cast<std::uint32_t>(trace.requests.size());
    if (line.parent_chat) {
      if (const auto parent = places.find(*line.parent_chat); parent != places.end()) {
        line.request.after = FollowUp{.request = parent->second};
      }
    }
    if (line.chat) places.insert_or_assign(*line.chat, place);
    trace.requests.push_back(std::move(line.request));
  }
  return trace;
}

/// The least power of two that an id may stand for if a prompt has so many; preferably with an id for the tokens after
/// the last complete block, as all but kvist's records have it.
std::optional<std::uint64_t> fitting_tokens_per_hash(std::uint64_t tokens, std::uint64_t ids) {
  for (const bool has_last : {true, false}) {
    for (std::uint64_t per_id = 1; per_id <= kMaxTokensPerHash; per_id *= 2) {
      if (ids == (tokens + (has_last ? per_id - 1 : 0)) / per_id) return per_id;
    }
  }
  return std::nullopt;
}

/// With a wrong number of tokens per id prompts would share wholly other beginnings than recorded.
Result<void> check_hash_ids(const TraceLine& line, std::uint32_t tokens_per_hash, const TraceLineParser& parser) {
  const std::uint64_t tokens = line.request.input_tokens;
  const std::uint64_t ids = line.request.hash_ids.size();
  const std::uint64_t most = (tokens + tokens_per_hash - 1) / tokens_per_hash;
  if (ids == 0 || ids == most || ids == tokens / tokens_per_hash) return {};
  const auto fitting = fitting_tokens_per_hash(tokens, ids);
  return parser.invalid(
      line.number, fmt::format("hash_ids: {} for an input_length of {}; want {} with tokens_per_hash {} (or none){}",
                               ids, tokens, most, tokens_per_hash,
                               fitting ? fmt::format("; workload.trace.tokens_per_hash {} would fit", *fitting) : ""));
}

/// The row that a line of Mooncake's dialects follows; nothing where it follows none.
Result<std::optional<FollowUp>> follow_up_of(const TraceLine& line, std::size_t place,
                                             const std::unordered_map<std::uint64_t, std::uint32_t>& last_of_session,
                                             const TraceLineParser& parser) {
  if (line.follows) {
    if (*line.follows >= place) {
      return parser.invalid(line.number, fmt::format("follows: row {} does not come before this one", *line.follows));
    }
    return FollowUp{.request = static_cast<std::uint32_t>(*line.follows), .pause = line.delay};
  }
  if (!line.session) return std::nullopt;
  const auto before = last_of_session.find(*line.session);
  if (before == last_of_session.end()) return std::nullopt;
  return FollowUp{.request = before->second, .pause = line.delay};
}

class RecordLinks {
 public:
  RecordLinks(const std::vector<TraceLine>& lines, Duration rounding)
      : lines_(&lines), rounding_(rounding), continued_(lines.size()) {}

  /// To be called in the order of arrival.
  std::optional<FollowUp> next(std::uint32_t place) {
    const TraceLine& line = (*lines_)[place];
    const std::optional<std::uint32_t> before = line.session ? last_of_session(line) : begun_by(line);
    if (line.session) {
      of_session_[*line.session].push_back(place);
    } else if (!line.request.hash_ids.empty()) {
      by_last_id_[line.request.hash_ids.back()].push_back(place);
    }
    if (!before) return std::nullopt;
    continued_[*before] = true;
    const Duration pause = std::max(Duration{}, line.request.at - end_of(*before));
    return FollowUp{.request = *before, .pause = std::chrono::round<std::chrono::microseconds>(pause)};
  }

 private:
  [[nodiscard]] Duration end_of(std::uint32_t place) const {
    const TraceLine& line = (*lines_)[place];
    return line.request.at + from_milliseconds(line.observed->latency_ms);
  }

  [[nodiscard]] bool ended_before(std::uint32_t place, const TraceLine& line) const {
    return end_of(place) <= line.request.at + rounding_;
  }

  [[nodiscard]] std::optional<std::uint32_t> last_of_session(const TraceLine& line) const {
    const auto session = of_session_.find(*line.session);
    if (session == of_session_.end()) return std::nullopt;
    return latest(session->second, [&](std::uint32_t place) {
      const std::vector<std::uint64_t>& before = (*lines_)[place].request.hash_ids;
      const std::vector<std::uint64_t>& ids = line.request.hash_ids;
      const bool goes_on = before.empty() || (before.size() <= ids.size() && ids[before.size() - 1] == before.back());
      return goes_on && ended_before(place, line) && line.request.input_tokens > (*lines_)[place].request.input_tokens;
    });
  }

  /// By the prompt alone: the longest that this one begins with.
  [[nodiscard]] std::optional<std::uint32_t> begun_by(const TraceLine& line) const {
    const std::vector<std::uint64_t>& ids = line.request.hash_ids;
    for (std::size_t blocks = ids.size(); blocks > 0; --blocks) {
      const auto found = by_last_id_.find(ids[blocks - 1]);
      if (found == by_last_id_.end()) continue;
      const auto goes_on = [&](std::uint32_t place) {
        const TraceRequest& earlier = (*lines_)[place].request;
        return !continued_[place] && earlier.hash_ids.size() == blocks && ended_before(place, line) &&
               line.request.input_tokens > earlier.input_tokens + earlier.output_tokens;
      };
      if (const auto place = latest(found->second, goes_on)) return place;
    }
    return std::nullopt;
  }

  /// Of those that `fits` the one whose answer ended last, among the latest arrivals.
  template <class Fits>
  [[nodiscard]] std::optional<std::uint32_t> latest(const std::vector<std::uint32_t>& places, const Fits& fits) const {
    constexpr std::size_t kLookedAt = 1'000;  // a session has few in flight, a common prompt may have many
    std::optional<std::uint32_t> best;
    const std::size_t from = places.size() > kLookedAt ? places.size() - kLookedAt : 0;
    for (std::size_t i = from; i < places.size(); ++i) {
      if (fits(places[i]) && (!best || end_of(places[i]) >= end_of(*best))) best = places[i];
    }
    return best;
  }

  const std::vector<TraceLine>* lines_;
  const Duration rounding_;
  std::vector<bool> continued_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> of_session_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> by_last_id_;
};

/// Makes a row that has what is new in a turn one of the whole prompt.
Result<void> add_what_was_said(TraceRequest& request, const TraceRequest& before, std::uint32_t tokens_per_hash,
                               const TraceLine& line, const TraceLineParser& parser) {
  // The chat template's tokens between two turns are part of what is new.
  constexpr std::uint64_t kLeastAdded = 64;
  const std::uint64_t tokens = std::uint64_t{before.input_tokens} + before.output_tokens +
                               std::max<std::uint64_t>(request.input_tokens, kLeastAdded);
  if (tokens > kMaxTokens) {
    return parser.invalid(
        line.number, fmt::format("input_length: the session has {} tokens up to here; at most {}", tokens, kMaxTokens));
  }
  request.input_tokens = static_cast<std::uint32_t>(tokens);
  // Of an answer there is no id, so what comes behind it is known by no other either.
  const std::size_t whole = std::min<std::size_t>(before.input_tokens / tokens_per_hash, before.hash_ids.size());
  request.hash_ids.assign(before.hash_ids.begin(), before.hash_ids.begin() + static_cast<std::ptrdiff_t>(whole));
  return {};
}

/// Whether a request's prompt has the answer in it that it waited for; nothing where its cached tokens do not tell:
/// another worker, memory that was lost, an answer that fills no block.
std::optional<bool> has_answer(const TraceRequest& request, const ObservedRequest& seen, const TraceRequest& before,
                               const ObservedRequest& seen_before, std::uint64_t tokens_per_block) {
  if (!seen.cached_tokens || seen.worker.empty() || seen.worker != seen_before.worker) return std::nullopt;
  const std::uint64_t of_prompt = before.input_tokens / tokens_per_block;
  const std::uint64_t first_of_answer = (of_prompt + 1) * tokens_per_block;
  // Neither an answer's last token nor a prompt's is ever found in the cache.
  const std::uint64_t computed = std::uint64_t{before.input_tokens} + before.output_tokens;
  if (computed <= first_of_answer || request.input_tokens <= first_of_answer) return std::nullopt;
  if (*seen.cached_tokens >= first_of_answer) return true;
  if (of_prompt > 0 && *seen.cached_tokens >= of_prompt * tokens_per_block) return false;
  return std::nullopt;
}

void find_answers_in_prompts(RecordedTraffic& traffic) {
  std::vector<TraceRequest>& requests = traffic.trace.requests;
  std::vector<TraceRequest*> untold;
  std::int64_t more_with = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!requests[i].after) continue;
    const std::uint32_t before = requests[i].after->request;
    const auto told = has_answer(requests[i], traffic.observed[i], requests[before], traffic.observed[before],
                                 traffic.head.tokens_per_hash);
    if (!told) untold.push_back(&requests[i]);
    if (!told) continue;
    more_with += *told ? 1 : -1;
    requests[i].after->has_answer = *told;
  }
  for (TraceRequest* const request : untold) request->after->has_answer = more_with >= 0;
}

}  // namespace

Result<Trace> linked_trace(std::vector<TraceLine> lines, const TraceLineParser& parser, const TraceReading& reading) {
  const bool is_bailian = lines.front().chat.has_value();
  std::uint32_t tokens_per_hash = reading.tokens_per_hash;
  if (tokens_per_hash == 0) tokens_per_hash = is_bailian ? kBailianTokensPerHash : kTokensPerHash;
  for (const TraceLine& line : lines) KVIST_TRY_VOID(check_hash_ids(line, tokens_per_hash, parser));
  if (is_bailian) return linked_by_chat(std::move(lines), parser);
  Trace trace;
  trace.has_instants = std::ranges::any_of(lines, &TraceLine::has_timestamp);
  trace.requests.reserve(lines.size());
  std::unordered_map<std::uint64_t, std::uint32_t> last_of_session;
  std::optional<Duration> latest;  // of those that follow no other
  for (TraceLine& line : lines) {
    const std::size_t place = trace.requests.size();
    TraceRequest& request = line.request;
    KVIST_TRY(request.after, follow_up_of(line, place, last_of_session, parser));
    if (line.session) last_of_session[*line.session] = static_cast<std::uint32_t>(place);
    if (reading.rows == spec::TraceRows::kAdded && line.session && request.after) {
      KVIST_TRY_VOID(add_what_was_said(request, trace.requests[request.after->request], tokens_per_hash, line, parser));
    }
    if (!line.has_timestamp && trace.has_instants) {
      if (!request.after) {
        return parser.invalid(line.number,
                              "timestamp: expected milliseconds: only a later row of a session can be without");
      }
      if (trace.line_without_instant == 0) trace.line_without_instant = line.number;
      request.at = trace.requests[request.after->request].at;
      if (!request.after->pause) request.after->pause = Duration{};
    }
    if (!request.after) {
      if (latest && request.at < *latest) {
        return parser.invalid(line.number,
                              fmt::format("timestamp: {} ms comes after {} ms; sort the trace by timestamp",
                                          to_milliseconds(request.at), to_milliseconds(*latest)));
      }
      latest = request.at;
    }
    trace.requests.push_back(std::move(request));
  }
  return trace;
}

RecordedTraffic linked_record(RecordHead head, std::vector<TraceLine> lines, Duration rounding) {
  RecordedTraffic traffic{.head = std::move(head)};
  traffic.trace.tokens_per_hash = traffic.head.tokens_per_hash;
  traffic.unserved = std::erase_if(lines, [](const TraceLine& line) { return !line.reached_worker; });
  sort_by_instant(lines);
  RecordLinks links(lines, rounding);
  std::vector<std::optional<FollowUp>> after(lines.size());
  for (std::uint32_t place = 0; place < lines.size(); ++place) after[place] = links.next(place);
  for (std::size_t place = 0; place < lines.size(); ++place) {
    lines[place].request.after = after[place];
    traffic.trace.requests.push_back(std::move(lines[place].request));
    traffic.observed.push_back(*std::move(lines[place].observed));
  }
  if (traffic.head.tokens_per_hash > 0) find_answers_in_prompts(traffic);
  return traffic;
}

}  // namespace kvist::workload
