#include "kvist/dashboard/event_log.h"

#include <utility>

#include "kvist/dashboard/json_fields.h"

namespace kvist::dashboard {
namespace {

/// Texts come from outside; an event is a line.
constexpr std::size_t kMostEventText = 300;

void write_event(JsonWriter& json, const Event& event) {
  json.begin_object().field("seq", event.seq).field("t_ms", event.t_ms).field("kind", event.kind);
  json.field("text", event.text);
  text_or_null(json, "worker", event.worker);
  text_or_null(json, "from", event.from);
  text_or_null(json, "to", event.to);
  json.end_object();
}

}  // namespace

void EventLog::add(Event event) {
  event.seq = next_++;
  event.text.resize(std::min(event.text.size(), kMostEventText));
  events_.push_back(std::move(event));
  if (events_.size() > kKept) events_.pop_front();
}

std::string EventLog::json_after(std::uint64_t seq) const {
  JsonWriter json;
  json.begin_object().field("type", "events").key("events").begin_array();
  for (const Event& event : events_)
    if (event.seq > seq) write_event(json, event);
  json.end_array().end_object();
  return json.take();
}

}  // namespace kvist::dashboard
