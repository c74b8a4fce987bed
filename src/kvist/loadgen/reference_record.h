// What the reference server did, token by token, and how far a client's record of the same streams is from it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/workload/turn_sample.h"

namespace kvist::loadgen {

/// One stream of the server. Instants are core time of the server's process, which is the clock of all processes of a
/// machine.
struct ReferenceStream {
  std::string request;          ///< its X-Request-Id
  TimePoint arrived;            ///< the system had the whole request; it may have been read later
  Duration latest_by{};         ///< how far the latest token was behind the server's own schedule
  std::vector<TimePoint> sent;  ///< when each token was written
};

/// The answer of GET /record: {"streams": [{"request", "arrived_ns", "latest_by_ns", "sent_ns": [...]}], "dropped"},
/// `sent_ns` from `arrived_ns` on.
[[nodiscard]] std::string reference_record_json(const std::vector<ReferenceStream>& streams, std::uint64_t dropped);
/// Errors name what is wrong with the text; then it comes from a server of another version.
[[nodiscard]] Result<std::vector<ReferenceStream>> parse_reference_record(std::string_view text);

/// The differences between what a client measured and what happened, in milliseconds; never negative.
struct DeliveryErrors {
  std::vector<double>
      ttft_ms;  ///< from the first token's write to its read, plus the uncertainty of the client's `sent`
  std::vector<double> itl_ms;   ///< between the gap that was read and the one that was written
  std::uint64_t unmatched = 0;  ///< turns that are not in the record, or with another number of tokens
};
/// The errors of the successful turns sent from `from` to `to`. `prefix` is that of the run's X-Request-Id.
[[nodiscard]] DeliveryErrors delivery_errors(const std::vector<workload::TurnSample>& turns,
                                             const std::vector<ReferenceStream>& streams, std::string_view prefix,
                                             TimePoint from, TimePoint to);

}  // namespace kvist::loadgen
