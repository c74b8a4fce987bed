// The events of a translated stream, as tests compare them.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/dialects/dialect.h"

namespace kvist::dialects {

struct StreamEvent {
  std::string name;
  std::string data;

  bool operator==(const StreamEvent&) const = default;
  friend std::ostream& operator<<(std::ostream& to, const StreamEvent& event) {
    return to << event.name << ' ' << event.data << '\n';
  }
};

/// Splits events of one name and one line of data; anything else becomes an event without a name.
inline std::vector<StreamEvent> split_events(std::string_view text) {
  constexpr std::string_view kName = "event: ";
  constexpr std::string_view kData = "\ndata: ";
  std::vector<StreamEvent> events;
  while (!text.empty()) {
    const std::size_t end = text.find("\n\n");
    const std::string_view event = text.substr(0, end);
    const std::size_t data = event.find(kData);
    if (end == std::string_view::npos || !event.starts_with(kName) || data == std::string_view::npos) {
      events.push_back({"", std::string(text)});
      return events;
    }
    events.push_back(
        {std::string(event.substr(kName.size(), data - kName.size())), std::string(event.substr(data + kData.size()))});
    text.remove_prefix(end + 2);
  }
  return events;
}

/// What a stream of these data becomes. It ends in order.
inline std::vector<StreamEvent> events_of(AnswerTranslator& answer, const std::vector<std::string>& data) {
  std::string out;
  for (const std::string& one : data) {
    if (const auto done = answer.on_event(one, out); !done) return {{"failed", done.error().message}};
  }
  answer.end(out);
  return split_events(out);
}

}  // namespace kvist::dialects
