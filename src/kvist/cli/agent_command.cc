// kvist loadgen agent: drives parts of loads for a coordinator.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "kvist/cli/commands.h"
#include "kvist/cli/load_arguments_json.h"
#include "kvist/cli/loadgen_options.h"
#include "kvist/cli/loadgen_service.h"
#include "kvist/cli/print.h"
#include "kvist/loadgen/agents/agent.h"
#include "kvist/loadgen/agents/file_store.h"
#include "kvist/loadgen/agents/level_order.h"
#include "kvist/loadgen/base_url.h"
#include "kvist/net/admin_listener.h"
#include "kvist/net/bearer_key.h"
#include "kvist/net/descriptor_limit.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/sha256.h"
#include "kvist/telemetry/log.h"

namespace kvist::cli {
namespace {

/// A folder of this process alone, which is removed with it.
class SentFiles {
 public:
  [[nodiscard]] static Result<SentFiles> create() {
    std::error_code failed;
    std::string path = (std::filesystem::temp_directory_path(failed) / "kvist-agent-XXXXXX").string();
    if (failed || ::mkdtemp(path.data()) == nullptr) {
      return fail(ErrorCode::kInternal, "no folder for the files of loads can be made; is TMPDIR there?");
    }
    return SentFiles(std::move(path));
  }
  SentFiles(SentFiles&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  SentFiles& operator=(SentFiles&&) = delete;
  ~SentFiles() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit SentFiles(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// Nobody else may have it send load, nor read what a load says, where others can reach it.
Result<void> check_listener(const AgentArguments& arguments) {
  if (net::is_loopback(arguments.host) || !arguments.listen_key_file.empty()) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("--host: {} can be reached by others: give the keys of coordinators (--listen-key-file)",
                          arguments.host));
}

/// How this machine reaches the target of a load.
Result<void> add_own_settings(const AgentArguments& own, LoadgenArguments& told) {
  if (!own.target.empty()) {
    KVIST_TRY(const std::string allowed, loadgen::base_url(own.target));
    KVIST_TRY(const std::string wanted, loadgen::base_url(told.target));
    if (wanted != allowed) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("target: {}; this agent sends to {} alone", wanted, allowed));
    }
  }
  told.api_key_file = own.api_key_file;
  told.tls = own.tls;
  told.source_addresses = own.source_addresses;
  told.dashboard.off = true;
  return {};
}

/// A level of a sweep.
Result<loadgen::AgentOrder> read_level(const AgentArguments& own, loadgen::LevelOrder order) {
  LoadgenArguments told;
  told.target = order.target;
  told.model = order.model;
  KVIST_TRY_VOID(add_own_settings(own, told));
  LoadOrder load;
  load.workload = std::move(order.workload);
  load.input.texts = std::move(order.texts);
  KVIST_TRY(loadgen::ServiceOptions options, service_options(told, load));
  return loadgen::AgentOrder{.options = std::move(options), .level = order.level, .seed = order.seed};
}

/// What a coordinator told, as a load of this machine. Threads: any.
Result<loadgen::AgentOrder> read_order(const AgentArguments& own, const std::string& folder, const std::string& json) {
  KVIST_TRY(std::optional<loadgen::LevelOrder> level, loadgen::parse_level_order(json));
  if (level) return read_level(own, *std::move(level));
  KVIST_TRY(LoadgenArguments told, parse_told_load(json, [&folder](const std::string& digest) -> Result<std::string> {
              const auto sha256 = net::sha256_from_hex(digest);
              if (!sha256) return fail(ErrorCode::kInvalidArgument, "order: a file is named by 64 hexadecimal digits");
              return loadgen::FileStore::path(folder, *sha256);
            }));
  KVIST_TRY_VOID(add_own_settings(own, told));
  KVIST_TRY(const LoadOrder order, read_load_order(told));
  if (!order.level) return fail(ErrorCode::kInvalidArgument, "order: has neither concurrency nor rate");
  KVIST_TRY(loadgen::ServiceOptions options, service_options(told, order));
  return loadgen::AgentOrder{.options = std::move(options), .level = *order.level, .seed = order.workload.seed};
}

}  // namespace

Result<void> serve_agent(const AgentArguments& arguments) {
  KVIST_TRY_VOID(check_listener(arguments));
  if (!arguments.target.empty()) {
    if (Result<std::string> url = loadgen::base_url(arguments.target); !url) {
      return std::unexpected(std::move(url).error().in("--target"));
    }
  }
  KVIST_TRY(const SentFiles files, SentFiles::create());
  loadgen::AgentOptions options;
  options.http = {arguments.host, arguments.port};
  KVIST_TRY(options.tls, load_listener(arguments.listen));
  if (!arguments.listen_key_file.empty()) {
    KVIST_TRY(options.keys, net::BearerKeys::read(arguments.listen_key_file));
  }
  options.threads = arguments.threads;
  options.folder = files.path();
  options.read_order = [&arguments, &files](const std::string& json) {
    return read_order(arguments, files.path(), json);
  };
  net::raise_descriptor_limit();
  telemetry::start_logging(telemetry::LogLevel::kInfo, "agent");
  net::EventLoop loop;
  KVIST_TRY(const auto agent, loadgen::Agent::create(loop, std::move(options)));
  loop.on_termination([&loop] { loop.stop(); });
  print_line(fmt::format("ready http={}", agent->port()));
  loop.run();
  return {};
}

}  // namespace kvist::cli
