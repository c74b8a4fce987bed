// kvist worker, kvist gateway, kvist epp: one part of a deployment as a process.
#include <fmt/format.h>

#include <csignal>
#include <filesystem>

#include "kvist/base/json_writer.h"
#include "kvist/base/yaml.h"
#include "kvist/cli/commands.h"
#include "kvist/cli/print.h"
#include "kvist/epp/service.h"
#include "kvist/gateway/service.h"
#include "kvist/net/event_loop.h"
#include "kvist/spec/files.h"
#include "kvist/telemetry/log.h"
#include "kvist/worker/service.h"

namespace kvist::cli {
namespace {

/// The time in which the last error frames are sent before the sockets close.
constexpr Duration kFarewell = std::chrono::milliseconds(100);
/// How much longer a shutdown takes at most than what is under way has time for: this is for the case that it does not
/// end.
constexpr Duration kLongestEnd = std::chrono::seconds(3);

void stop_after(net::EventLoop& loop, net::Timer& timer, Duration pause) {
  timer.arm(net::now() + pause, [&loop] { loop.stop(); });
}

/// The first SIGINT or SIGTERM drains the service, a second one ends it at once.
template <class Service>
void end_on_signals(net::EventLoop& loop, net::Timer& timer, Service& service, Duration drain_timeout) {
  loop.on_termination([&, drain_timeout] {
    stop_after(loop, timer, drain_timeout + kLongestEnd);
    service.shut_down([&] { stop_after(loop, timer, kFarewell); });
  });
  loop.on_repeated_termination([&] {
    stop_after(loop, timer, kLongestEnd);
    service.end_now();
  });
}

// Writes the arguments as the text of a settings file and reads it, so that the same rules apply.
Result<spec::WorkerSpec> worker_of(const WorkerArguments& arguments) {
  if (!arguments.file.empty()) return spec::load_worker(arguments.file);
  if (arguments.engine != "cpu") {
    return fail(ErrorCode::kInvalidArgument,
                arguments.engine.empty()
                    ? std::string("a worker needs --file, or --engine cpu --model DIR")
                    : fmt::format("--engine: expected cpu, got \"{}\"; other engines are set up in a file (-f)",
                                  arguments.engine));
  }
  if (arguments.model.empty()) return fail(ErrorCode::kInvalidArgument, "--engine cpu needs --model DIR");
  const auto quoted = [](std::string_view text) {
    std::string out;
    append_json_string(out, text);  // JSON strings are YAML strings
    return out;
  };
  const std::filesystem::path folder = std::filesystem::path(arguments.model).lexically_normal();
  std::string name = arguments.served_name;
  if (name.empty()) name = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
  std::string text =
      fmt::format("model: {}\ntokenizer: {}\nhttp: {{host: {}, port: {}}}\nadmin: {{port: {}}}\n", quoted(name),
                  quoted(arguments.model), quoted(arguments.host), arguments.port, arguments.admin_port);
  text += fmt::format("kv_events_port: {}\nkv_replay_port: {}\n", arguments.kv_events_port, arguments.kv_replay_port);
  if (!arguments.kv_events_topic.empty())
    text += fmt::format("kv_events_topic: {}\n", quoted(arguments.kv_events_topic));
  text += fmt::format("cpu:\n  model: {}\n  threads: {}\n", quoted(arguments.model), arguments.threads);
  if (!arguments.weights.empty()) text += fmt::format("  weights: {}\n", quoted(arguments.weights));
  if (!arguments.kv_dtype.empty()) text += fmt::format("  kv_dtype: {}\n", quoted(arguments.kv_dtype));
  if (!arguments.memory.empty()) text += fmt::format("  memory: {}\n", quoted(arguments.memory));
  if (!arguments.tool_parser.empty()) text += fmt::format("tool_parser: {}\n", quoted(arguments.tool_parser));
  if (!arguments.api_key_file.empty()) text += fmt::format("api_key_file: {}\n", quoted(arguments.api_key_file));
  if (arguments.draft_tokens > 0) {
    text += fmt::format("speculation: {{drafter: prompt_lookup, draft_length: adaptive, draft_tokens: {}}}\n",
                        arguments.draft_tokens);
  }
  KVIST_TRY(const YamlNode node, YamlNode::parse(text, "arguments"));
  return spec::read_worker(node);
}

telemetry::LogLevel level_of(spec::LogThreshold threshold) {
  switch (threshold) {
    case spec::LogThreshold::kDebug:
      return telemetry::LogLevel::kDebug;
    case spec::LogThreshold::kInfo:
      return telemetry::LogLevel::kInfo;
    case spec::LogThreshold::kWarning:
      return telemetry::LogLevel::kWarning;
    case spec::LogThreshold::kError:
      break;
  }
  return telemetry::LogLevel::kError;
}

/// Puts what the command line says into `log`, and begins to log.
Result<void> start_log(spec::LogSpec& log, const LogArguments& arguments, std::string_view process) {
  if (!arguments.format.empty()) {
    KVIST_TRY(log.format, spec::parse_log_format(arguments.format));
  }
  if (!arguments.level.empty()) {
    KVIST_TRY(log.level, spec::parse_log_level(arguments.level));
  }
  telemetry::start_logging(
      level_of(log.level), process,
      log.format == spec::LogFormat::kJson ? telemetry::LogFormat::kJson : telemetry::LogFormat::kText);
  return {};
}

}  // namespace

Result<void> serve_worker(const WorkerArguments& arguments) {
  KVIST_TRY(spec::WorkerSpec spec, worker_of(arguments));
  KVIST_TRY_VOID(start_log(spec.log, arguments.log, spec.name));
  ::signal(SIGPIPE, SIG_IGN);  // a reader of the log who leaves must not end the service
  net::EventLoop loop;
  // Before anything else, because the signal would end a worker that is still loading.
  loop.on_hangup(
      [] { telemetry::log_info("worker", "SIGHUP: keys and certificates are read again, if there are any"); });
  net::Timer end(loop);
  KVIST_TRY(const auto service, worker::Service::create(loop, spec));
  loop.on_hangup([&] { service->reload(); });
  end_on_signals(loop, end, *service, spec.drain_timeout);
  print_line(fmt::format("ready http={} admin={} kv_events={} kv_replay={}", service->port(), service->admin_port(),
                         service->kv_events_port(), service->kv_replay_port()));
  loop.run();
  return {};
}

Result<void> serve_gateway(const GatewayArguments& arguments) {
  const gateway::SettingsFile file(arguments.file);
  KVIST_TRY(spec::GatewaySpec spec, spec::load_gateway(arguments.file));
  KVIST_TRY_VOID(start_log(spec.log, arguments.log, "gateway"));
  ::signal(SIGPIPE, SIG_IGN);  // a reader of the log who leaves must not end the service
  net::EventLoop loop;
  // Before anything else, because the signal would end a gateway that is still loading.
  loop.on_hangup([] { telemetry::log_info("gateway", "SIGHUP: files are read again, if there are any"); });
  net::Timer end(loop);
  KVIST_TRY(const auto service, gateway::Service::create(loop, spec, file));
  loop.on_hangup([&] { service->reload(); });
  end_on_signals(loop, end, *service, spec.drain_timeout);
  print_line(fmt::format("ready http={} admin={}", service->port(), service->admin_port()));
  loop.run();
  return {};
}

Result<void> serve_epp(const GatewayArguments& arguments) {
  const gateway::SettingsFile file(arguments.file);
  KVIST_TRY(spec::GatewaySpec spec, spec::load_gateway(arguments.file));
  KVIST_TRY_VOID(start_log(spec.log, arguments.log, "epp"));
  ::signal(SIGPIPE, SIG_IGN);
  net::EventLoop loop;
  loop.on_hangup([] { telemetry::log_info("epp", "SIGHUP: files are read again, if there are any"); });
  net::Timer end(loop);
  KVIST_TRY(const auto service, epp::Service::create(loop, spec, file));
  loop.on_hangup([&] { service->reload(); });
  end_on_signals(loop, end, *service, spec.drain_timeout);
  print_line(fmt::format("ready grpc={} admin={}", service->port(), service->admin_port()));
  loop.run();
  return {};
}

}  // namespace kvist::cli
