// One line of a trace or of a record of traffic, in any dialect.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/json.h"
#include "kvist/workload/recorded_traffic.h"
#include "kvist/workload/trace.h"
#include "kvist/workload/trace_file.h"

namespace kvist::workload {

/// What a trace's first row says of all its rows.
enum class TraceDialect : std::uint8_t {
  kMooncake,  ///< also Dynamo's: milliseconds, sessions
  kBailian,   ///< seconds, chats that name the one before
};

/// A request as its line has it, and what the line says of others. Which of it is there depends on the dialect.
struct TraceLine {
  std::size_t number = 0;  ///< of the line, from 1
  TraceRequest request;    ///< without `after`; `at` is 0 without a timestamp
  bool has_timestamp = false;
  std::optional<std::uint64_t> session = {};      ///< session_id, hashed
  std::optional<Duration> delay = {};             ///< after the answer to the session's row before
  std::optional<std::uint64_t> follows = {};      ///< row of the file, from 0
  std::optional<std::uint64_t> chat = {};         ///< Bailian: a name of this request
  std::optional<std::uint64_t> parent_chat = {};  ///< Bailian: that of the turn before
  std::optional<ObservedRequest> observed = {};   ///< of a record
  bool reached_worker = true;                     ///< the same
};

/// Reads lines one by one, within the limits. Errors name the file, the line, what it holds and what would be right.
class TraceLineParser {
 public:
  TraceLineParser(std::string name, const TraceLimits& limits);

  /// The next line, without its end; nothing if it is empty.
  [[nodiscard]] Result<std::optional<TraceLine>> parse(std::string_view text);
  /// Reads the first line of a record. From then on parse() also reads how requests were answered.
  [[nodiscard]] Result<RecordHead> parse_head(std::string_view text);

  [[nodiscard]] std::unexpected<Error> invalid(std::size_t line, const std::string& what) const;

 private:
  [[nodiscard]] Result<TraceLine> read_line(std::string_view text);
  [[nodiscard]] Result<RecordHead> read_head(std::string_view text);
  [[nodiscard]] Result<std::vector<std::uint64_t>> hash_ids(const JsonObject& object);
  [[nodiscard]] Error at_line(Error error) const;

  const std::string name_;
  const TraceLimits limits_;
  JsonDocument document_;
  bool is_record_ = false;  // a head was read
  std::optional<TraceDialect> dialect_;
  std::size_t line_ = 0;
  std::size_t requests_ = 0;
  std::size_t ids_read_ = 0;
  bool has_ids_ = false;  // some row has `hash_ids`
};

}  // namespace kvist::workload
