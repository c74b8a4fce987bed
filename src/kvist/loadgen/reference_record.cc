#include "kvist/loadgen/reference_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "kvist/base/json.h"
#include "kvist/base/json_writer.h"

namespace kvist::loadgen {
namespace {

constexpr std::int64_t kMostNanoseconds = std::int64_t{1} << 61;

Result<ReferenceStream> parse_stream(const JsonObject& object) {
  ReferenceStream stream;
  KVIST_TRY(const std::string_view request, object.require_string("request"));
  stream.request = request;
  KVIST_TRY(const std::uint64_t arrived, object.require_unsigned("arrived_ns", 0, kMostNanoseconds));
  KVIST_TRY(const std::uint64_t latest_by, object.require_unsigned("latest_by_ns", 0, kMostNanoseconds));
  stream.arrived = TimePoint(Duration(static_cast<std::int64_t>(arrived)));
  stream.latest_by = Duration(static_cast<std::int64_t>(latest_by));
  KVIST_TRY(const JsonArray sent, object.require_array("sent_ns"));
  for (const JsonValue value : sent) {
    KVIST_TRY(const std::int64_t after, value.as_int(0, kMostNanoseconds));
    stream.sent.push_back(stream.arrived + Duration(after));
  }
  return stream;
}

void add_errors(const workload::TurnSample& turn, const ReferenceStream& stream, DeliveryErrors& errors) {
  const double first = to_milliseconds(turn.first_token - stream.sent.front());
  errors.ttft_ms.push_back(std::max(0.0, first) + static_cast<double>(turn.longest_send_ms));
  for (std::size_t i = 0; i < turn.gaps_ms.size(); ++i) {
    const double written = to_milliseconds(stream.sent[i + 1] - stream.sent[i]);
    errors.itl_ms.push_back(std::abs(static_cast<double>(turn.gaps_ms[i]) - written));
  }
}

}  // namespace

std::string reference_record_json(const std::vector<ReferenceStream>& streams, std::uint64_t dropped) {
  JsonWriter json;
  json.begin_object().key("streams").begin_array();
  for (const ReferenceStream& stream : streams) {
    json.begin_object().field("request", stream.request);
    json.field("arrived_ns", stream.arrived.time_since_epoch().count());
    json.field("latest_by_ns", stream.latest_by.count()).key("sent_ns").begin_array();
    for (const TimePoint sent : stream.sent) json.value((sent - stream.arrived).count());
    json.end_array().end_object();
  }
  json.end_array().field("dropped", dropped).end_object();
  return json.take();
}

Result<std::vector<ReferenceStream>> parse_reference_record(std::string_view text) {
  JsonDocument document({.name = "the reference server's record", .most_bytes = std::size_t{256} << 20});
  KVIST_TRY(const JsonObject root, document.parse_object(text));
  KVIST_TRY(const JsonArray streams, root.require_array("streams"));
  KVIST_TRY(const std::uint64_t dropped, root.require_unsigned("dropped", 0, kMostNanoseconds));
  if (dropped > 0) {
    return fail(ErrorCode::kResourceExhausted,
                fmt::format("the reference server had no room for the record of {} streams", dropped));
  }
  std::vector<ReferenceStream> parsed;
  for (const JsonValue value : streams) {
    KVIST_TRY(const JsonObject object, value.as_object());
    KVIST_TRY(ReferenceStream stream, parse_stream(object));
    parsed.push_back(std::move(stream));
  }
  return parsed;
}

DeliveryErrors delivery_errors(const std::vector<workload::TurnSample>& turns,
                               const std::vector<ReferenceStream>& streams, std::string_view prefix, TimePoint from,
                               TimePoint to) {
  std::unordered_map<std::string_view, const ReferenceStream*> by_request;  // only looked up
  for (const ReferenceStream& stream : streams) by_request.emplace(stream.request, &stream);
  DeliveryErrors errors;
  for (const workload::TurnSample& turn : turns) {
    if (turn.outcome != workload::TurnOutcome::kSucceeded || turn.sent < from || turn.sent > to) continue;
    const std::string request = fmt::format("{}-{}-{}", prefix, turn.conversation.value(), turn.turn);
    const auto found = by_request.find(request);
    const bool same = found != by_request.end() && !found->second->sent.empty() &&
                      found->second->sent.size() == turn.chunks && turn.gaps_ms.size() + 1 == turn.chunks;
    if (same) {
      add_errors(turn, *found->second, errors);
    } else {
      ++errors.unmatched;
    }
  }
  return errors;
}

}  // namespace kvist::loadgen
