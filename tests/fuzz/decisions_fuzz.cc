// fuzz: routing
// Files of routing decisions: decisions that are read can be replayed, and written and read again with the same
// outcome.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kvist/base/check.h"
#include "kvist/routing/decision_json.h"
#include "kvist/routing/decision_replay.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvist;
  const auto file = routing::read_decisions(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!file) {
    KVIST_CHECK(!file.error().message.empty(), "an error says what is wrong");
    return 0;
  }
  JsonWriter json;
  json.begin_object().field("format", routing::kDecisionsFormat).key("decisions").begin_array();
  for (const routing::DecisionRecord& record : file->decisions) write_decision(json, record, file->worker_names);
  json.end_array().end_object();
  const auto again = routing::read_decisions(json.take());
  KVIST_CHECK(again && again->decisions.size() == file->decisions.size(), "what was read can be written and read");
  routing::DecisionReplay replay;
  for (std::size_t i = 0; i < file->decisions.size(); ++i) {
    const auto first = replay.decide(file->decisions[i]);
    const auto second = replay.decide(again->decisions[i]);
    KVIST_CHECK(first.outcome == second.outcome && first.worker == second.worker, "the same record, the same choice");
  }
  return 0;
}
