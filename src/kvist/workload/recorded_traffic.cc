#include "kvist/workload/recorded_traffic.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "kvist/workload/dynamo_trace.h"
#include "kvist/workload/text_lines.h"
#include "kvist/workload/trace_line.h"
#include "kvist/workload/trace_links.h"

namespace kvist::workload {
namespace {

/// Reads the files of one recording, one after the other.
class RecordReader {
 public:
  explicit RecordReader(const TraceLimits& limits) : limits_(limits) {}

  /// One file. False, and nothing is taken in, where it is of another recording than those before.
  template <class Read>
  Result<bool> add_file(const std::string& name, const Read& read) {
    TraceLineParser parser(name, limits_);
    bool is_first = true;
    bool is_ours = true;
    KVIST_TRY_VOID(read([&](std::string_view text, bool ended) -> Result<void> {
      if (!is_ours || !ended) return {};
      if (!std::exchange(is_first, false)) return add_line(parser, text);
      KVIST_TRY(RecordHead head, parser.parse_head(text));
      is_ours = !head_ || head.recording == head_->recording;
      if (is_ours && (!head_ || head.part < head_->part)) head_ = std::move(head);
      return {};
    }));
    return is_ours && !is_first;
  }

  Result<RecordedTraffic> finish(const std::string& name) {
    RecordedTraffic traffic = linked_record(head_.value_or(RecordHead{}), std::move(lines_));
    if (!traffic.trace.requests.empty()) return traffic;
    return fail(ErrorCode::kInvalidArgument, name + ": holds no request that a worker answered");
  }

 private:
  Result<void> add_line(TraceLineParser& parser, std::string_view text) {
    KVIST_TRY(std::optional<TraceLine> line, parser.parse(text));
    if (!line) return {};
    // Each file has a bound of its own, and there may be many.
    if (lines_.size() >= limits_.requests) {
      return parser.invalid(line->number, fmt::format("more than {} requests in all files", limits_.requests));
    }
    lines_.push_back(*std::move(line));
    return {};
  }

  const TraceLimits limits_;
  std::optional<RecordHead> head_;
  std::vector<TraceLine> lines_;
};

}  // namespace

bool is_record(std::string_view first_line) {
  return first_line.starts_with(R"({"kvist_record":)");
}

Result<RecordedTraffic> parse_record(std::string_view text, const std::string& name, const TraceLimits& limits) {
  RecordReader reader(limits);
  KVIST_TRY_VOID(reader.add_file(name, [&](const OnLine& on_line) { return for_each_line(text, on_line); }));
  return reader.finish(name);
}

Result<RecordedTraffic> load_record(const std::string& path, const TraceLimits& limits) {
  RecordReader reader(limits);
  std::string file = path;
  for (std::uint32_t number = 1;; ++number) {
    KVIST_TRY(const bool added, reader.add_file(file, [&](const OnLine& on_line) {
      return for_each_line_of_file(file, limits.line_bytes, on_line);
    }));
    if (!added) break;
    file = fmt::format("{}.{}", path, number);
    std::error_code error;
    if (!std::filesystem::is_regular_file(file, error)) break;
  }
  return reader.finish(path);
}

Result<RecordedTraffic> load_traffic(const std::string& path, const TraceLimits& limits) {
  return is_dynamo_trace(first_line_of_file(path, kHeadBytes)) ? load_dynamo_trace(path, limits)
                                                               : load_record(path, limits);
}

}  // namespace kvist::workload
