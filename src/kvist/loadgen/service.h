// The load generator as a service: drives a workload over HTTP, exports its metrics and has a control API.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/loadgen/controlled_load.h"
#include "kvist/loadgen/load.h"
#include "kvist/loadgen/load_measures.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_client.h"
#include "kvist/net/http_server.h"
#include "kvist/net/http_types.h"
#include "kvist/net/tls.h"
#include "kvist/spec/deployment.h"
#include "kvist/spec/workload.h"
#include "kvist/workload/load_feed.h"
#include "kvist/workload/load_input.h"
#include "kvist/workload/prompt_ids.h"
#include "kvist/workload/recorder.h"
#include "kvist/workload/shard.h"
#include "kvist/workload/snapshot.h"
#include "kvist/workload/turn_sample.h"
#include "kvist/workload/turn_source.h"

namespace kvist::loadgen {

struct ServiceOptions {
  std::string target_url;           ///< http://host:port or https://host:port of an OpenAI-compatible server
  net::ServerSettings target = {};  ///< its key and certificate
  std::string model;
  spec::Endpoint http;                       ///< metrics and control API
  std::shared_ptr<net::TlsServer> tls = {};  ///< of that listener; null: plain HTTP
  spec::WorkloadSpec workload;
  workload::LoadInput input = {};                      ///< set if the workload replays a trace
  Duration window = std::chrono::seconds(60);          ///< the window of the Summary and the rates
  std::string path = "/v1/chat/completions";           ///< to which requests go
  net::Headers headers = {};                           ///< sent with every request, in addition to the service's own
  std::optional<workload::PromptIds> prompt_ids = {};  ///< prompts are sent as token ids; `path` has to take them
  /// Counts the tokens of answers of a target that sends no usage; null: one per chunk.
  std::function<std::uint32_t(std::string_view)> count_tokens = {};
  workload::Shard shard = {};                      ///< the part of the load that this one drives
  std::vector<std::string> source_addresses = {};  ///< addresses to connect from, in turn; empty: the system chooses
  std::optional<std::uint64_t> max_turns = {};     ///< the load ends after that many
  bool listens = true;         ///< false: somebody else has the listener, and calls Service::handle()
  bool watches_pauses = true;  ///< measures the processors' pauses while it drives a load
  std::shared_ptr<workload::LoadFeed> feed = {};  ///< is told what happens; null: nobody watches
};

/// The most changes of one load.
inline constexpr std::size_t kMostChanges = 10'000;

/// Threads: the loop's. Control API: GET /status, POST /start {"concurrency":N,"seed":S}, PATCH /load
/// {"concurrency":N} or {"rate":R}, POST /stop {"drain":true|false}; GET /metrics with loadgen_ttft_all_seconds
/// (Summary), loadgen_requests_total{outcome}, and more.
class Service : public ControlledLoad {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Service>> create(net::EventLoop& loop, ServiceOptions options);

  /// As prepare(), with the texts that another part of the load has made. Requires: `texts` are of that seed.
  virtual void use_texts(std::uint64_t seed, std::shared_ptr<const workload::Mix> texts) = 0;
  /// Like start_with(), with a schedule that begins at `at`, which may be in the future.
  [[nodiscard]] virtual Result<void> start_at(std::uint32_t concurrency, std::uint64_t seed, TimePoint at,
                                              const workload::LoadChange& settings) = 0;
  /// Raises the number of conversations at once. client_load() counts from now. Errors: kInvalidArgument while not
  /// running, or for a smaller number; kUnsupported if the load does not depend on such a number.
  [[nodiscard]] virtual Result<void> raise(std::uint32_t concurrency) = 0;
  /// change() from `at` on, which may be in the future: every turn that is due before goes out as it was ordered and
  /// every one due after it as is ordered now, however late the loop is. Not earlier than a change that is still to
  /// come; one that is in the past is made now.
  [[nodiscard]] virtual Result<void> change_at(const workload::LoadChange& change, TimePoint at) = 0;
  [[nodiscard]] virtual LoadMeasures measures() const = 0;
  /// Windows and totals of the load.
  [[nodiscard]] virtual const workload::Recorder& recorder() const = 0;
  /// The figures of the published method now.
  [[nodiscard]] virtual workload::Snapshot snapshot() = 0;
};

}  // namespace kvist::loadgen
