#include "kvist/dashboard/command.h"

#include <array>
#include <utility>

#include "kvist/base/json.h"
#include "kvist/base/json_writer.h"

namespace kvist::dashboard {
namespace {

constexpr std::uint64_t kMostId = 1ULL << 53;
constexpr std::size_t kMostBytes = 64U << 10;
constexpr std::size_t kMostWord = 256;

using What = decltype(Command::what);

Result<std::string> bounded_text(const JsonObject& object, std::string_view name) {
  KVIST_TRY(const std::string_view value, object.require_string(name));
  if (value.size() > kMostWord) return object.wrong(name, "expected at most 256 bytes");
  return std::string(value);
}

Result<What> read_start(const JsonObject& object) {
  StartLoad start;
  KVIST_TRY(const auto concurrency, object.find_unsigned("concurrency", 1, kMostConcurrency));
  if (concurrency) start.concurrency = static_cast<std::uint32_t>(*concurrency);
  KVIST_TRY(start.rate_per_s, object.find_double("rate_per_s", 0, kMostRate));
  return start;
}
Result<What> read_stop(const JsonObject& object) {
  KVIST_TRY(const bool drain, object.bool_or("drain", true));
  return StopLoad{.drain = drain};
}
Result<What> read_concurrency(const JsonObject& object) {
  KVIST_TRY(const std::uint64_t concurrency, object.require_unsigned("concurrency", 1, kMostConcurrency));
  return SetConcurrency{.concurrency = static_cast<std::uint32_t>(concurrency)};
}
Result<What> read_rate(const JsonObject& object) {
  KVIST_TRY(const double rate, object.require_double("rate_per_s", 0, kMostRate));
  return SetRate{.rate_per_s = rate};
}
Result<What> read_mode(const JsonObject& object) {
  KVIST_TRY(const std::string_view name, object.require_string("mode"));
  KVIST_TRY(const spec::RoutingMode mode, spec::parse_live_routing_mode(name.substr(0, kMostWord)));
  return SetMode{.mode = mode};
}
Result<What> read_history(const JsonObject& object) {
  AskHistory ask;
  KVIST_TRY(const std::string_view of, object.require_string("of"));
  if (of != "live" && of != "workers") return object.wrong("of", "expected live or workers");
  ask.of_workers = of == "workers";
  constexpr std::uint64_t kDay = 86'400;
  constexpr std::uint64_t kMostPoints = 4'800;
  KVIST_TRY(const std::uint64_t window, object.require_unsigned("window_s", 1, kDay));
  ask.window_s = static_cast<std::int64_t>(window);
  KVIST_TRY(const auto points, object.find_unsigned("points", 10, kMostPoints));
  if (points) ask.points = static_cast<std::size_t>(*points);
  return ask;
}
Result<What> read_topic(const JsonObject& object, bool on) {
  KVIST_TRY(const std::string_view topic, object.require_string("topic"));
  if (topic == "conversations") return Subscribe{.topic = Topic::kConversations, .on = on};
  if (topic == "decisions") return Subscribe{.topic = Topic::kDecisions, .on = on};
  return object.wrong("topic", "expected conversations or decisions");
}
Result<What> read_subscribe(const JsonObject& object) {
  return read_topic(object, true);
}
Result<What> read_unsubscribe(const JsonObject& object) {
  return read_topic(object, false);
}
Result<What> read_conversation(const JsonObject& object) {
  KVIST_TRY(std::string conversation, bounded_text(object, "conversation"));
  return AskConversation{.conversation = std::move(conversation)};
}
Result<What> read_runs(const JsonObject& /*object*/) {
  return AskRuns{};
}
Result<What> read_run(const JsonObject& object) {
  KVIST_TRY(std::string run, bounded_text(object, "run"));
  return AskRun{.run = std::move(run)};
}
Result<What> read_level(const JsonObject& object) {
  KVIST_TRY(std::string run, bounded_text(object, "run"));
  KVIST_TRY(const std::uint64_t level, object.require_unsigned("level", 0, kMostId));
  return AskLevel{.run = std::move(run), .level = static_cast<std::int64_t>(level)};
}
Result<What> read_compare(const JsonObject& object) {
  KVIST_TRY(std::string baseline, bounded_text(object, "baseline"));
  KVIST_TRY(std::string candidate, bounded_text(object, "candidate"));
  return AskCompare{.baseline = std::move(baseline), .candidate = std::move(candidate)};
}

struct Kind {
  std::string_view name;
  Result<What> (*read)(const JsonObject&);
};
constexpr std::array<Kind, 13> kKinds = {{{"start", read_start},
                                          {"stop", read_stop},
                                          {"set_concurrency", read_concurrency},
                                          {"set_rate", read_rate},
                                          {"set_mode", read_mode},
                                          {"history", read_history},
                                          {"subscribe", read_subscribe},
                                          {"unsubscribe", read_unsubscribe},
                                          {"conversation", read_conversation},
                                          {"runs", read_runs},
                                          {"run", read_run},
                                          {"level", read_level},
                                          {"compare", read_compare}}};

Result<Command> read(const JsonObject& object, std::uint64_t id) {
  Command command{.id = id};
  KVIST_TRY(const std::string_view name, object.require_string("command"));
  KVIST_TRY(const std::optional<std::string_view> token, object.find_string("token"));
  command.token = std::string(token.value_or("").substr(0, kMostWord));
  for (const Kind& kind : kKinds) {
    if (kind.name != name) continue;
    KVIST_TRY(command.what, kind.read(object));
    KVIST_TRY_VOID(object.finish());
    return command;
  }
  std::string known;
  for (const Kind& kind : kKinds) known.append(known.empty() ? "" : ", ").append(kind.name);
  return object.wrong("command", "unknown; known are " + known);
}

}  // namespace

std::expected<Command, BadCommand> read_command(std::string_view text) {
  JsonDocument document(
      {.root = "command", .wrong = ErrorCode::kInvalidArgument, .most_bytes = kMostBytes, .most_depth = 4});
  const auto object = document.parse_object(text);
  if (!object) return std::unexpected(BadCommand{.why = object.error().message});
  const auto id = object->require_unsigned("id", 0, kMostId);
  if (!id) return std::unexpected(BadCommand{.why = id.error().message});
  auto command = read(*object, *id);
  if (!command) return std::unexpected(BadCommand{.id = *id, .why = std::move(command).error().message});
  return *std::move(command);
}

std::string reply_json(std::uint64_t id, std::string_view result) {
  JsonWriter json;
  json.begin_object().field("type", "reply").field("id", id).field("ok", true).key("result").raw(result).end_object();
  return json.take();
}

std::string refusal_json(std::uint64_t id, std::string_view why) {
  JsonWriter json;
  json.begin_object().field("type", "reply").field("id", id).field("ok", false).field("error", why).end_object();
  return json.take();
}

}  // namespace kvist::dashboard
