// fuzz: loadgen
// What coordinators and agents read of each other: any bytes are a message or an error, and what is read is written as
// the same again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kvist/base/check.h"
#include "kvist/loadgen/agents/agent_messages.h"
#include "kvist/loadgen/agents/feed_page.h"
#include "kvist/loadgen/agents/level_order.h"
#include "kvist/loadgen/agents/sample_page.h"

namespace {

using namespace kvist::loadgen;  // NOLINT(google-build-using-namespace)

void read_page(std::string_view bytes) {
  const auto page = read_sample_page(bytes);
  if (page) KVIST_CHECK(write_sample_page(*page) == bytes, "a page has one form");
}

void read_feed(std::string_view bytes) {
  const auto page = read_feed_page(bytes);
  if (page) KVIST_CHECK(write_feed_page(*page) == bytes, "a page of a feed has one form");
}

void read_report(std::string_view text) {
  const auto report = parse_agent_report(text);
  if (!report || report->protocol != kAgentProtocol) return;
  const auto again = parse_agent_report(agent_report_json(*report));
  KVIST_CHECK(again.has_value(), "a report that was read can be written");
  KVIST_CHECK(again->client.loops.size() == report->client.loops.size(), "loops stay");
}

template <class Parse, class Write>
void read_command(std::string_view text, Parse parse, Write write) {
  const auto command = parse(text);
  if (!command) return;
  const auto again = parse(write(*command));
  KVIST_CHECK(again.has_value() && write(*again) == write(*command), "a command comes back");
}

void read_level(std::string_view text) {
  const auto order = parse_level_order(text);
  if (!order || !*order) return;
  const auto again = parse_level_order(level_order_json(**order));
  KVIST_CHECK(again.has_value() && again->has_value(), "a level that was read can be written");
  KVIST_CHECK((*again)->workload == (*order)->workload, "and is the same load");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_page(text);
  read_feed(text);
  read_report(text);
  read_level(text);
  read_command(text, parse_load_command, load_command_json);
  read_command(text, parse_agent_start, agent_start_json);
  read_command(text, parse_agent_change, agent_change_json);
  read_command(text, parse_agent_stop, agent_stop_json);
  read_command(text, parse_clock, clock_json);
  read_command(text, parse_file_state, file_state_json);
  return 0;
}
