#include "kvist/loadgen/agents/agent_messages.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>

#include "kvist/base/json.h"
#include "kvist/base/json_writer.h"
#include "kvist/loadgen/agents/clock_offset.h"
#include "kvist/loadgen/control_api.h"

namespace kvist::loadgen {
namespace {

constexpr std::uint64_t kMostCount = std::uint64_t{1} << 53;
constexpr double kMostNumber = 1e15;
constexpr std::size_t kMostName = 128;

constexpr std::array kStates = {std::pair{std::string_view("idle"), AgentState::kIdle},
                                std::pair{std::string_view("preparing"), AgentState::kPreparing},
                                std::pair{std::string_view("ready"), AgentState::kReady},
                                std::pair{std::string_view("running"), AgentState::kRunning},
                                std::pair{std::string_view("draining"), AgentState::kDraining},
                                std::pair{std::string_view("ended"), AgentState::kEnded},
                                std::pair{std::string_view("failed"), AgentState::kFailed}};

JsonDocument agent_document(ErrorCode wrong) {
  return JsonDocument({.root = "body", .wrong = wrong});
}

void write_optional_number(JsonWriter& json, std::string_view name, const std::optional<double>& value) {
  if (value) json.field(name, *value);
}

Result<double> number_of(const JsonObject& object, std::string_view name) {
  KVIST_TRY(const std::optional<double> value, object.find_double(name, 0, kMostNumber));
  return value.value_or(0);
}

Result<std::uint64_t> count_of(const JsonObject& object, std::string_view name, std::uint64_t most = kMostCount) {
  KVIST_TRY(const std::optional<std::uint64_t> value, object.find_unsigned(name, 0, most));
  return value.value_or(0);
}

Result<Duration> span_of(const JsonObject& object, std::string_view name) {
  KVIST_TRY(const std::uint64_t ns, count_of(object, name, kMostClockNs));
  return Duration(static_cast<std::int64_t>(ns));
}

Result<TimePoint> instant_of(const JsonObject& object, std::string_view name) {
  KVIST_TRY(const std::uint64_t ns, object.require_unsigned(name, 0, kMostClockNs));
  return TimePoint(Duration(static_cast<std::int64_t>(ns)));
}

/// The name of a load.
Result<std::string> load_of(const JsonObject& object) {
  KVIST_TRY(const std::string_view load, object.require_string("load"));
  if (load.empty() || load.size() > kMostName) return object.wrong("load", "want 1 to 128 bytes");
  return std::string(load);
}

std::int64_t ns_of(TimePoint at) {
  return at.time_since_epoch().count();
}

constexpr std::pair<std::string_view, std::optional<double> workload::Snapshot::*> kWindowFigures[] = {
    {"ttft_p50_ms", &workload::Snapshot::ttft_p50_ms},       {"ttft_p95_ms", &workload::Snapshot::ttft_p95_ms},
    {"tpot_p50_ms", &workload::Snapshot::tpot_p50_ms},       {"tpot_p95_ms", &workload::Snapshot::tpot_p95_ms},
    {"request_itl_p50_ms", &workload::Snapshot::itl_p50_ms}, {"request_itl_p95_ms", &workload::Snapshot::itl_p95_ms},
    {"latency_p50_ms", &workload::Snapshot::latency_p50_ms}, {"latency_p95_ms", &workload::Snapshot::latency_p95_ms}};
constexpr std::pair<std::string_view, double workload::Snapshot::*> kWindowRates[] = {
    {"output_tokens_per_s", &workload::Snapshot::output_tokens_per_s},
    {"turns_per_s", &workload::Snapshot::turns_per_s},
    {"conversation_starts_per_s", &workload::Snapshot::conversation_starts_per_s},
    {"failed_per_s", &workload::Snapshot::failed_per_s},
    {"error_pct", &workload::Snapshot::error_pct}};

void write_progress(JsonWriter& json, const Progress& progress) {
  json.key("progress").begin_object();
  json.field("succeeded", progress.succeeded).field("failed", progress.failed);
  json.field("in_flight", progress.window.in_flight);
  for (const auto& [name, member] : kWindowFigures) write_optional_number(json, name, progress.window.*member);
  for (const auto& [name, member] : kWindowRates) json.field(name, progress.window.*member);
  write_optional_number(json, "itl_p50_ms", progress.itl_p50_ms);
  write_optional_number(json, "itl_p95_ms", progress.itl_p95_ms);
  json.end_object();
}

Result<Progress> read_progress(const JsonObject& object) {
  Progress progress;
  KVIST_TRY(progress.succeeded, count_of(object, "succeeded"));
  KVIST_TRY(progress.failed, count_of(object, "failed"));
  KVIST_TRY(const std::uint64_t in_flight, count_of(object, "in_flight", std::numeric_limits<std::uint32_t>::max()));
  progress.window.in_flight = static_cast<std::uint32_t>(in_flight);
  for (const auto& [name, member] : kWindowFigures) {
    KVIST_TRY(progress.window.*member, object.find_double(name, 0, kMostNumber));
  }
  for (const auto& [name, member] : kWindowRates) {
    KVIST_TRY(progress.window.*member, number_of(object, name));
  }
  KVIST_TRY(progress.itl_p50_ms, object.find_double("itl_p50_ms", 0, kMostNumber));
  KVIST_TRY(progress.itl_p95_ms, object.find_double("itl_p95_ms", 0, kMostNumber));
  return progress;
}

void write_loop(JsonWriter& json, const LoopHealth& loop) {
  json.begin_object();
  json.field("loop_delay_p99_ms", loop.loop_delay_p99_ms).field("loop_delay_max_ms", loop.loop_delay_max_ms);
  json.field("loop_stalls", loop.loop_stalls).field("loop_stalled_ms", loop.loop_stalled_ms);
  write_optional_number(json, "run_queue_seconds", loop.run_queue_seconds);
  json.end_object();
}

Result<LoopHealth> read_loop(const JsonObject& object) {
  LoopHealth loop;
  KVIST_TRY(loop.loop_delay_p99_ms, number_of(object, "loop_delay_p99_ms"));
  KVIST_TRY(loop.loop_delay_max_ms, number_of(object, "loop_delay_max_ms"));
  KVIST_TRY(loop.loop_stalls, count_of(object, "loop_stalls"));
  KVIST_TRY(loop.loop_stalled_ms, number_of(object, "loop_stalled_ms"));
  KVIST_TRY(loop.run_queue_seconds, object.find_double("run_queue_seconds", 0, kMostNumber));
  return loop;
}

void write_pauses(JsonWriter& json, const WatchedPauses& pauses) {
  json.key("pauses").begin_object().field("pauses", pauses.pauses).field("real_time", pauses.real_time);
  json.field("cpu_seconds", pauses.cpu_seconds).key("late").begin_array();
  for (const auto& [at_most, count] : pauses.late.buckets()) {
    json.begin_array().value(at_most.count()).value(count).end_array();
  }
  json.end_array().end_object();
}

Result<WatchedPauses> read_pauses(const JsonObject& object) {
  WatchedPauses pauses;
  KVIST_TRY(pauses.pauses, count_of(object, "pauses"));
  KVIST_TRY(pauses.real_time, object.bool_or("real_time", false));
  KVIST_TRY(pauses.cpu_seconds, number_of(object, "cpu_seconds"));
  KVIST_TRY(const JsonArray late, object.require_array("late"));
  if (late.size() > DelayHistogram::kBuckets) return late.value().wrong("has too many buckets");
  for (const JsonValue bucket : late) {
    KVIST_TRY(const JsonArray pair, bucket.as_array());
    if (pair.size() != 2) return bucket.expected("a delay and a count");
    auto part = pair.begin();
    KVIST_TRY(const std::uint64_t ns, (*part).as_unsigned(0, kMostClockNs));
    KVIST_TRY(const std::uint64_t count, (*++part).as_unsigned(0, kMostCount / DelayHistogram::kBuckets));
    pauses.late.record(Duration(static_cast<std::int64_t>(ns)), count);
  }
  return pauses;
}

void write_client_load(JsonWriter& json, const ClientLoad& load) {
  json.key("client").begin_object().field("cpu_seconds", load.cpu_seconds);
  write_optional_number(json, "steal_share", load.steal_share);
  if (load.refused_starts) json.field("refused_starts", *load.refused_starts);
  json.key("loops").begin_array();
  for (const LoopHealth& loop : load.loops) write_loop(json, loop);
  json.end_array();
  if (load.pauses) write_pauses(json, *load.pauses);
  json.end_object();
}

/// The worst of the loops are the client's figures.
Result<ClientLoad> read_client_load(const JsonObject& object) {
  ClientLoad load;
  KVIST_TRY(load.cpu_seconds, number_of(object, "cpu_seconds"));
  KVIST_TRY(load.steal_share, object.find_double("steal_share", 0, 1));
  KVIST_TRY(const auto refused, object.find_string("refused_starts"));
  if (refused) load.refused_starts = std::string(refused->substr(0, 1'024));
  KVIST_TRY(const JsonArray loops, object.require_array("loops"));
  if (loops.size() > kMostAgentThreads) return loops.value().wrong("has too many loops");
  for (const JsonValue value : loops) {
    KVIST_TRY(const JsonObject loop_object, value.as_object());
    KVIST_TRY(const LoopHealth loop, read_loop(loop_object));
    load.loop_delay_p99_ms = std::max(load.loop_delay_p99_ms, loop.loop_delay_p99_ms);
    load.loop_delay_max_ms = std::max(load.loop_delay_max_ms, loop.loop_delay_max_ms);
    load.loop_stalls += loop.loop_stalls;
    load.loop_stalled_ms += loop.loop_stalled_ms;
    if (loop.run_queue_seconds) {
      load.run_queue_seconds = std::max(load.run_queue_seconds.value_or(0), *loop.run_queue_seconds);
    }
    load.loops.push_back(loop);
  }
  KVIST_TRY(const auto pauses, object.find_object("pauses"));
  if (pauses) {
    KVIST_TRY(load.pauses, read_pauses(*pauses));
  }
  return load;
}

Result<AgentState> read_state(const JsonObject& object) {
  KVIST_TRY(const std::string_view text, object.require_string("state"));
  for (const auto& [name, state] : kStates) {
    if (name == text) return state;
  }
  return object.wrong("state", fmt::format("{} is unknown", in_quotes(text)));
}

Result<std::string> short_text(const JsonObject& object, std::string_view name, std::size_t most) {
  KVIST_TRY(const auto text, object.find_string(name));
  return std::string(text.value_or("").substr(0, most));
}

}  // namespace

std::string_view to_string(AgentState state) {
  for (const auto& [name, known] : kStates) {
    if (known == state) return name;
  }
  return "unknown";
}

std::string agent_report_json(const AgentReport& report) {
  JsonWriter json;
  json.begin_object().field("kvist_version", report.kvist_version).field("protocol", report.protocol);
  json.field("threads", report.threads).field("state", to_string(report.state)).field("load", report.load);
  json.field("schedule", report.schedule).field("error", report.error);
  write_progress(json, report.progress);
  json.field("exhausted", report.exhausted).field("samples_refused", report.samples_refused);
  json.field("sent_late", report.held_back.sent_late).field("not_sent", report.held_back.not_sent);
  json.field("driven_ns", report.driven.count()).field("latest_change_ns", report.latest_change.count());
  write_client_load(json, report.client);
  json.end_object();
  return json.take();
}

Result<AgentReport> parse_agent_report(std::string_view text) {
  JsonDocument document = agent_document(ErrorCode::kCorrupt);
  KVIST_TRY(const JsonObject object, document.parse_object(text));
  AgentReport report;
  KVIST_TRY(const std::string_view version, object.require_string("kvist_version"));
  report.kvist_version = version.substr(0, kMostName);
  KVIST_TRY(const std::uint64_t protocol, object.require_unsigned("protocol", 0, 1'000'000));
  report.protocol = static_cast<std::uint32_t>(protocol);
  if (report.protocol != kAgentProtocol) return report;  // the rest may mean something else
  KVIST_TRY(const std::uint64_t threads, object.require_unsigned("threads", 1, kMostAgentThreads));
  report.threads = static_cast<std::uint32_t>(threads);
  KVIST_TRY(report.state, read_state(object));
  KVIST_TRY(report.load, short_text(object, "load", kMostName));
  KVIST_TRY(report.schedule, short_text(object, "schedule", kMostName));
  KVIST_TRY(report.error, short_text(object, "error", 4'096));
  KVIST_TRY(const JsonObject progress, object.require_object("progress"));
  KVIST_TRY(report.progress, read_progress(progress));
  KVIST_TRY(report.exhausted, object.bool_or("exhausted", false));
  KVIST_TRY(report.samples_refused, count_of(object, "samples_refused"));
  report.progress.samples_refused = report.samples_refused;
  KVIST_TRY(report.held_back.sent_late, count_of(object, "sent_late"));
  KVIST_TRY(report.held_back.not_sent, count_of(object, "not_sent"));
  KVIST_TRY(report.driven, span_of(object, "driven_ns"));
  KVIST_TRY(report.latest_change, span_of(object, "latest_change_ns"));
  KVIST_TRY(const JsonObject client, object.require_object("client"));
  KVIST_TRY(report.client, read_client_load(client));
  return report;
}

std::string load_command_json(const LoadCommand& command) {
  JsonWriter json;
  json.begin_object().field("load", command.load).field("first", command.shard.index);
  json.field("of", command.shard.count).field("watched", command.watched);
  json.key("order").raw(command.order).end_object();
  return json.take();
}

Result<LoadCommand> parse_load_command(std::string_view text) {
  JsonDocument document = agent_document(ErrorCode::kInvalidArgument);
  KVIST_TRY(const JsonObject object, document.parse_object(text));
  LoadCommand command;
  KVIST_TRY(command.load, load_of(object));
  KVIST_TRY(const std::uint64_t of, object.require_unsigned("of", 1, kMostShards));
  KVIST_TRY(const std::uint64_t first, object.require_unsigned("first", 0, of - 1));
  command.shard = {.index = static_cast<std::uint32_t>(first), .count = static_cast<std::uint32_t>(of)};
  KVIST_TRY(const JsonObject order, object.require_object("order"));
  command.order = order.value().minified();
  KVIST_TRY(command.watched, object.bool_or("watched", false));
  KVIST_TRY_VOID(object.finish());
  return command;
}

std::string agent_start_json(const AgentStart& command) {
  JsonWriter json;
  json.begin_object().field("load", command.load).field("at_ns", ns_of(command.at));
  if (command.stop) json.field("stop_ns", ns_of(*command.stop));
  json.end_object();
  return json.take();
}

Result<AgentStart> parse_agent_start(std::string_view text) {
  JsonDocument document = agent_document(ErrorCode::kInvalidArgument);
  KVIST_TRY(const JsonObject object, document.parse_object(text));
  AgentStart command;
  KVIST_TRY(command.load, load_of(object));
  KVIST_TRY(command.at, instant_of(object, "at_ns"));
  if (object.has("stop_ns")) {
    KVIST_TRY(command.stop, instant_of(object, "stop_ns"));
    if (*command.stop <= command.at) return object.wrong("stop_ns", "must be after at_ns");
  }
  KVIST_TRY_VOID(object.finish());
  return command;
}

std::string agent_change_json(const AgentChange& command) {
  JsonWriter json;
  json.begin_object().field("load", command.load).field("at_ns", ns_of(command.at));
  json.key("change").raw(load_change_json(command.change)).end_object();
  return json.take();
}

Result<AgentChange> parse_agent_change(std::string_view text) {
  JsonDocument document = agent_document(ErrorCode::kInvalidArgument);
  KVIST_TRY(const JsonObject object, document.parse_object(text));
  AgentChange command;
  KVIST_TRY(command.load, load_of(object));
  KVIST_TRY(command.at, instant_of(object, "at_ns"));
  KVIST_TRY(const JsonObject change, object.require_object("change"));
  KVIST_TRY(command.change, parse_load_change(change.value().minified()));
  KVIST_TRY_VOID(object.finish());
  return command;
}

std::string agent_stop_json(const AgentStop& command) {
  JsonWriter json;
  json.begin_object().field("load", command.load).field("drain", command.drain).end_object();
  return json.take();
}

Result<AgentStop> parse_agent_stop(std::string_view text) {
  JsonDocument document = agent_document(ErrorCode::kInvalidArgument);
  KVIST_TRY(const JsonObject object, document.parse_object(text));
  AgentStop command;
  KVIST_TRY(command.load, load_of(object));
  KVIST_TRY(command.drain, object.bool_or("drain", true));
  KVIST_TRY_VOID(object.finish());
  return command;
}

std::string clock_json(TimePoint now) {
  return fmt::format(R"({{"now_ns":{}}})", ns_of(now));
}

Result<TimePoint> parse_clock(std::string_view text) {
  JsonDocument document = agent_document(ErrorCode::kCorrupt);
  KVIST_TRY(const JsonObject object, document.parse_object(text));
  return instant_of(object, "now_ns");
}

std::string file_state_json(const FileState& state) {
  return fmt::format(R"({{"bytes":{},"complete":{}}})", state.bytes, state.complete);
}

Result<FileState> parse_file_state(std::string_view text) {
  JsonDocument document = agent_document(ErrorCode::kCorrupt);
  KVIST_TRY(const JsonObject object, document.parse_object(text));
  FileState state;
  KVIST_TRY(state.bytes, object.require_unsigned("bytes", 0, kMostCount));
  KVIST_TRY(state.complete, object.require_bool("complete"));
  return state;
}

}  // namespace kvist::loadgen
