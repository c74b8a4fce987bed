// fuzz: dashboard
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kvist/base/check.h"
#include "kvist/base/json.h"
#include "kvist/dashboard/command.h"
#include "kvist/dashboard/event_log.h"
#include "kvist/dashboard/workers.h"

namespace {

void check_json(const std::string& text) {
  kvist::JsonDocument document;
  KVIST_CHECK(document.parse(text).has_value(), "what is sent to a page is JSON");
}

}  // namespace

/// The first byte chooses what the rest is: a command of a page, a gateway's status, its metrics, a worker's metrics.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 4 == 0) {
    const auto command = kvist::dashboard::read_command(text);
    check_json(command ? kvist::dashboard::reply_json(command->id, "{}")
                       : kvist::dashboard::refusal_json(command.error().id, command.error().why));
    return 0;
  }
  kvist::dashboard::FleetReading reading{.second = 100};
  if (data[0] % 4 == 1) {
    auto status = kvist::dashboard::read_gateway_status(text);
    if (status) reading.status = *std::move(status);
  } else if (data[0] % 4 == 2) {
    auto counters = kvist::dashboard::read_gateway_counters(text);
    if (counters) reading.counters = *std::move(counters);
  } else if (auto page = kvist::dashboard::read_worker_page(text)) {
    reading.status = kvist::dashboard::GatewayStatus{};
    reading.status->workers.push_back({.name = "w", .model = "", .url = "", .state = "healthy", .problem = ""});
    reading.pages.emplace("w", *page);
  }
  kvist::dashboard::Workers workers;
  kvist::dashboard::EventLog log;
  workers.add(reading, log);
  reading.second = 101;
  workers.add(reading, log);
  kvist::JsonWriter json;
  workers.write(json);
  check_json(json.take());
  check_json(workers.history_json(60, 60));
  check_json(log.json_after(0));
  return 0;
}
