#include "kvist/gateway/service.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "kvist/gateway/admin.h"
#include "kvist/gateway/client_connections.h"
#include "kvist/gateway/dialect_door.h"
#include "kvist/gateway/dns_groups.h"
#include "kvist/gateway/error_answer.h"
#include "kvist/gateway/fleet_admin.h"
#include "kvist/gateway/fleet_changes.h"
#include "kvist/gateway/fleet_watch.h"
#include "kvist/gateway/gateway_metrics.h"
#include "kvist/gateway/gateway_parts.h"
#include "kvist/gateway/mode_from_environment.h"
#include "kvist/gateway/model_list.h"
#include "kvist/gateway/passed_on_paths.h"
#include "kvist/gateway/public_listener.h"
#include "kvist/gateway/reading_pool.h"
#include "kvist/gateway/service_field.h"
#include "kvist/gateway/worker_settings.h"
#include "kvist/net/admin_listener.h"
#include "kvist/net/path_table.h"
#include "kvist/net/time_of_day.h"
#include "kvist/openai/codec.h"
#include "kvist/openai/errors.h"
#include "kvist/spec/files.h"
#include "kvist/telemetry/log.h"
#include "kvist/telemetry/metrics.h"
#include "kvist/text/model_text.h"

namespace kvist::gateway {
namespace {

/// With up to so many threads, the one that routes takes requests too: they need no message between threads, and
/// routing is a small part of the work. With more, it would be the busiest thread and set the pace.
constexpr std::uint32_t kThreadsThatShare = 4;

// Seeds the generated request ids, so that they differ between gateways and between runs. Nothing else depends on it.
std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) ^ device();
}

std::uint32_t thread_count(const spec::GatewaySpec& gateway) {
  constexpr std::uint32_t kMost = 8;
  if (gateway.threads != 0) return gateway.threads;
  return std::clamp(std::thread::hardware_concurrency(), 1U, kMost);
}

/// Raises the soft limit of open file descriptors to the hard one, as far as the system allows it, and returns what
/// holds then. Shells and systemd set the soft one to 1,024 for the sake of select(), which is not used here.
std::uint64_t raise_descriptor_limit() {
  constexpr std::uint64_t kUnknown = 1'024;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kUnknown;
  const rlimit raised{.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
  return ::setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
}

/// The most connections of clients per loop.
std::uint32_t most_connections(const spec::GatewaySpec& gateway, std::uint32_t configured, std::uint32_t loops) {
  constexpr std::uint64_t kFew = 256;
  const bool any_events =
      std::ranges::any_of(gateway.workers, [](const auto& worker) { return !worker.kv_events.empty(); }) ||
      std::ranges::any_of(gateway.worker_groups, [](const auto& group) { return group.kv_events_port != 0; });
  // Workers that come are taken to be of the same kind.
  const DescriptorNeeds needs{.descriptors = raise_descriptor_limit(),
                              .event_streams = any_events ? spec::worker_places(gateway) : 0};
  if (most_clients(needs) < kFew) {
    telemetry::log_warning("gateway", fmt::format("of {} file descriptors, {} are left for clients: raise the limit",
                                                  needs.descriptors, most_clients(needs)));
  }
  return most_connections(needs, configured, loops);
}

Result<void> check(spec::GatewaySpec& gateway) {
  if (gateway.workers.empty() && gateway.worker_groups.empty())
    return fail(ErrorCode::kInvalidArgument, "the gateway needs at least one worker");
  std::set<std::string> names;
  for (spec::UpstreamSpec& worker : gateway.workers) {
    if (!names.insert(worker.name).second) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("two workers are called \"{}\"", worker.name));
    }
    while (worker.url.ends_with('/')) worker.url.pop_back();
    if (!worker.url.starts_with("http://") && !worker.url.starts_with("https://")) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("worker {}: url \"{}\" is not of the form http://host:port or https://host:port",
                              worker.name, worker.url));
    }
  }
  return {};
}

bool lists_models(const net::HttpRequest& request) {
  const std::string_view path = request.path();
  return (path == "/v1/models" || model_of_path(path)) && (request.method == "GET" || request.method == "HEAD");
}

/// Whether the request is none of the gateway's own endpoints and is passed to a worker unchanged.
bool is_for_a_worker(const net::HttpRequest& request) {
  return !lists_models(request) && is_passed_on(request.path());
}

class GatewayService final : public Service {
 public:
  GatewayService(net::EventLoop& loop, spec::GatewaySpec gateway, std::shared_ptr<const text::ModelText> text,
                 std::unique_ptr<RecordWriter> recording, std::map<std::string, net::ServerSettings> servers,
                 std::unique_ptr<RequestReporter> reporting)
      : loop_(&loop),
        parts_(loop, std::move(gateway), random_seed(), std::move(text), std::move(recording), std::move(servers),
               std::move(reporting)),
        models_(parts_.client, parts_.fleet, parts_.upstreams, parts_.spec.model, parts_.spec.model_aliases,
                openai::model_list({parts_.spec.model}, static_cast<std::int64_t>(net::unix_seconds()), 0),
                parts_.spec.pass_client_keys),
        drain_timer_(loop),
        watch_(loop, parts_),
        changes_(loop, parts_),
        groups_(loop, parts_.spec.worker_groups, changes_),
        files_(loop) {}

  [[nodiscard]] Result<void> start() {
    KVIST_TRY_VOID(open_keys());
    KVIST_TRY_VOID(open_tls(parts_.spec.tls, parts_.tls));
    KVIST_TRY_VOID(open_tls(parts_.spec.admin_tls, parts_.admin_tls));
    add_routes();
    const spec::GatewaySpec& gateway = parts_.spec;
    KVIST_TRY_VOID(listen_for_admin());
    KVIST_TRY_VOID(listen());
    KVIST_TRY_VOID(parts_.events.connect(gateway.workers));
    for (const auto& monitor : parts_.monitors)
      if (monitor) monitor->start();
    watch_.start();
    groups_.start();
    files_.start();
    telemetry::log_info("gateway",
                        fmt::format("port {}, administration on {}:{}, {} threads, model {}, {} workers, routing mode "
                                    "{}, KV blocks of {} tokens",
                                    port(), gateway.admin.host, admin_port(), thread_count(gateway), gateway.model,
                                    gateway.workers.size(), to_string(parts_.router.mode()), gateway.block_size));
    if (!gateway.tokenizer.empty())
      telemetry::log_info("gateway", fmt::format("tokenizer and chat template of {}", gateway.tokenizer));
    if (parts_.recorder)
      telemetry::log_info("gateway", fmt::format("traffic is recorded into {}", gateway.record.file));
    return {};
  }

  /// Follows the list of workers in the file that has these settings now. Requires: start() was not called yet.
  void follow(SettingsFile file, const spec::GatewaySpec& now) {
    in_file_ = now;
    files_.add({file.path}, std::move(file.before), [this, path = file.path] { read_again(path); });
  }

  [[nodiscard]] std::uint16_t port() const override {
    return server_ ? server_->port() : parts_.io_loops.front()->port();
  }

  [[nodiscard]] std::uint16_t admin_port() const override { return admin_server_->port(); }

  void reload() override { files_.ask(); }

  void shut_down(std::function<void()> done) override {
    telemetry::log_info("gateway", fmt::format("draining: {} requests are under way and have {} s",
                                               parts_.dispatcher.in_flight(), to_seconds(parts_.spec.drain_timeout)));
    if (server_) server_->drain();
    for (const auto& io : parts_.io_loops) io->drain();
    drain_timer_.arm(net::now() + parts_.spec.drain_timeout, [this] { end_now(); });
    is_draining_ = true;
    draining_ = 1 + parts_.io_loops.size();
    drained_ = std::move(done);
    parts_.on_each_proxy([this, home = parts_.routing](Proxy& proxy) {
      proxy.drain([this, home] {
        home->loop->post([this, home] {
          if (home->channel != nullptr) on_drained();
        });
      });
    });
  }

  void end_now() override {
    out_of_time_ = true;
    parts_.on_each_proxy([](Proxy& proxy) { proxy.break_off_all(); });
    if (draining_ == 0) end_drain();
  }

 private:
  /// A proxy has no request any more. When none has, slow clients have the rest of the time to read what is theirs.
  void on_drained() {
    if (--draining_ > 0) return;
    if (out_of_time_) return end_drain();
    unsent_ = parts_.io_loops.size() + (server_ ? 1 : 0);
    const auto sent = [this] {
      if (--unsent_ == 0) end_drain();
    };
    if (server_) server_->when_sent(sent);
    for (const auto& io : parts_.io_loops) io->when_sent(sent);
  }
  void end_drain() {
    drain_timer_.cancel();
    if (const auto done = std::exchange(drained_, nullptr)) done();
  }

  void read_again(const std::string& file) {
    Result<spec::GatewaySpec> read = spec::load_gateway(file);
    if (read)
      if (auto good = check(*read); !good) read = std::unexpected(std::move(good).error().in(file));
    if (!read) return telemetry::log_error("file", fmt::format("the fleet stays as it was: {}", read.error().message));
    const FleetPlan plan = plan_of(in_file_.workers, read->workers);
    const std::vector<std::string> others = settings_that_differ(in_file_, *read);
    if (!others.empty())
      telemetry::log_warning(
          "file", fmt::format("{}: of what has changed, these need a restart: {}", file, fmt::join(others, ", ")));
    telemetry::log_info("file", fmt::format("{} was read again: {} workers to add, {} to drain, {} to replace", file,
                                            plan.add.size(), plan.drain.size(), plan.replace.size()));
    // What needs a restart is said each time, until there is one.
    in_file_.workers = std::move(read->workers);
    changes_.carry_out(plan, WorkerSource::kFile);
  }

  [[nodiscard]] Result<void> open_keys() {
    KVIST_TRY_VOID(open_ring(parts_.spec.api_keys.file, parts_.keys));
    return open_ring(parts_.spec.api_keys.admin_file, parts_.admin_keys);
  }
  [[nodiscard]] Result<void> open_ring(const std::string& file, std::unique_ptr<KeyGate>& gate) {
    if (file.empty()) return {};
    FileStamps before = WatchedFiles::stamps_of({file});
    KVIST_TRY(std::shared_ptr<KeyRing> ring, KeyRing::open(file, net::now()));
    telemetry::log_info("keys", fmt::format("{}: {} keys", file, ring->table()->size()));
    gate = std::make_unique<KeyGate>(ring);
    files_.add({file}, std::move(before), [this, ring] { read_again(ring); });
    return {};
  }
  /// On a thread of its own: a file of a million keys would stop all streams for a second.
  void read_again(const std::shared_ptr<KeyRing>& ring) {
    if (!key_reader_) key_reader_ = std::make_unique<ReadingPool>(*loop_, ReadingPool::Options{.threads = 1});
    const bool submitted = key_reader_->submit(
        [ring]() -> std::function<void()> {
          return [ring, read = ring->reload(net::now())] {
            if (read) {
              telemetry::log_info("keys",
                                  fmt::format("{} was read again: {} keys", ring->file(), ring->table()->size()));
            } else {
              telemetry::log_error("keys", fmt::format("the keys stay as they were: {}", read.error().message));
            }
          };
        },
        0);
    if (!submitted) telemetry::log_error("keys", "the keys stay as they were: they are still being read");
  }

  [[nodiscard]] Result<void> open_tls(const spec::ServerTlsSpec& spec, std::shared_ptr<net::TlsServer>& tls) {
    std::vector<std::string> files = {spec.certificate, spec.key};
    if (!spec.client_ca.empty()) files.push_back(spec.client_ca);
    FileStamps before = WatchedFiles::stamps_of(files);
    KVIST_TRY(tls, load_tls(spec));
    if (!tls) return {};
    files_.add(std::move(files), std::move(before), [tls] {
      const Result<void> read = tls->reload();
      const std::string& file = tls->options().certificate;
      if (read) {
        telemetry::log_info("tls", fmt::format("{} was read again", file));
      } else {
        telemetry::log_error("tls", fmt::format("the certificate stays as it was: {}", read.error().message));
      }
    });
    return {};
  }

  void handle_admin(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
    if (!parts_.admin_keys || needs_no_key(request)) return admin_paths_.handle(std::move(request), exchange);
    KeyGate::Verdict verdict = parts_.admin_keys->admit(request, net::now());
    if (verdict.refusal) return exchange->respond(*std::move(verdict.refusal));
    admin_paths_.handle(std::move(request), exchange);
  }

  /// A request of a client that came to this loop.
  void handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
    if (!parts_.keys || needs_no_key(request)) return paths_.handle(std::move(request), exchange);
    KeyGate::Verdict verdict = parts_.keys->admit(request, net::now());
    if (verdict.refusal) {
      if (parts_.reporter) parts_.reporter->refused(request, verdict.refusal->status, net::now());
      return exchange->respond(in_form_of(request, *std::move(verdict.refusal)));
    }
    lease_ = std::move(verdict.lease);
    paths_.handle(std::move(request), exchange);
    lease_ = {};
  }

  /// On this loop, with connections of its own, so that it answers when clients have taken all others.
  [[nodiscard]] Result<void> listen_for_admin() {
    const spec::Endpoint& admin = parts_.spec.admin;
    const bool asks_who = parts_.admin_keys != nullptr ||
                          parts_.spec.admin_tls.client_certificates == spec::ClientCertificates::kRequired;
    net::HttpServerOptions options = net::admin_listener(admin.host, admin.port, asks_who);
    options.tls = parts_.admin_tls;
    options.before_body = stranger_check(parts_.admin_keys.get(), nullptr);
    auto server =
        net::HttpServer::listen(*loop_, std::move(options),
                                [this](net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
                                  handle_admin(std::move(request), exchange);
                                });
    if (!server) return std::unexpected(std::move(server).error().in("gateway.admin"));
    admin_server_ = *std::move(server);
    if (!net::is_loopback(admin.host) && !asks_who) {
      telemetry::log_warning("gateway", fmt::format("administration listens on {}: whoever reaches that may change "
                                                    "the routing mode and read what requests went where",
                                                    admin.host));
    }
    return {};
  }

  /// This loop routes. It takes requests too, unless the gateway has many threads.
  [[nodiscard]] Result<void> listen() {
    const spec::GatewaySpec& gateway = parts_.spec;
    net::HttpServerOptions options = public_listener(gateway);
    options.tls = parts_.tls;
    options.before_body = stranger_check(parts_.keys.get(), parts_.reporter.get());
    const std::uint32_t threads = thread_count(gateway);
    options.max_connections = most_connections(gateway, options.max_connections, threads);
    const bool takes_requests = threads <= kThreadsThatShare;
    if (threads > 1) {
      // The sockets of the loops share the port, and would share it with another gateway too. So this probe makes sure
      // that it is free.
      KVIST_TRY(const auto probe,
                net::HttpServer::listen(*loop_, options, [](const net::HttpRequest&, const auto&) {}));
      options.port = probe->port();
      options.shared_port = true;
      options.max_bodies_bytes = std::max(options.max_bodies_bytes / threads, 2 * options.max_body_bytes);
    }
    if (takes_requests) {
      KVIST_TRY(server_, net::HttpServer::listen(
                             *loop_, options,
                             [this](net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
                               handle(std::move(request), exchange);
                             }));
    }
    return listen_on_loops(options, takes_requests ? threads - 1 : threads);
  }

  [[nodiscard]] Result<void> listen_on_loops(const net::HttpServerOptions& options, std::uint32_t loops) {
    for (std::uint32_t i = 0; i < loops; ++i) {
      Proxy::Options proxy = parts_.proxy_options(random_seed());
      proxy.reading_threads = 1;
      KVIST_TRY(auto io, IoLoop::create({.proxy = proxy, .client = parts_.client_options(), .server = options},
                                        parts_.routing, parts_.reader, parts_.upstreams,
                                        {.keys = parts_.keys.get(),
                                         .is_passed_on = is_for_a_worker,
                                         .answer = [this](net::HttpRequest request,
                                                          const std::shared_ptr<net::HttpExchange>& exchange) {
                                           paths_.handle(std::move(request), exchange);
                                         }}));
      parts_.io_loops.push_back(std::move(io));
    }
    for (const auto& io : parts_.io_loops) io->start();
    return {};
  }

  void add_routes() {
    const auto proxied = [this](Api api) {
      return [this, api](net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
        parts_.proxy.handle(api, std::move(request), exchange, std::move(lease_));
      };
    };
    paths_.on("POST", "/v1/chat/completions", proxied(Api::kChat));
    paths_.on("POST", "/v1/completions", proxied(Api::kCompletions));
    for (const char* path : {"/v1/messages", "/v1/messages/count_tokens", "/v1/responses"}) {
      paths_.on("POST", path, [this](net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
        const auto dialect = dialect_of(request);
        handle_dialect(*dialect, *loop_, parts_.proxy, std::move(request), exchange, std::move(lease_));
      });
    }
    paths_.on("GET", "/v1/models",
              [this](const net::HttpRequest& request, const std::shared_ptr<net::HttpExchange>& exchange) {
                models_.answer(request, exchange, std::move(lease_));
              });
    const auto takes = [](std::string_view path) { return is_passed_on(path) || model_of_path(path); };
    paths_.on_rest(takes, [this](net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
      if (lists_models(request)) return models_.answer(request, exchange, std::move(lease_));
      if (!is_passed_on(request.path()))
        return exchange->respond(refused(request, 404, "only GET knows a path with escapes"));
      parts_.proxy.pass_on(std::move(request), exchange, std::move(lease_));
    });
    paths_.answer("GET", "/health", [this](const net::HttpRequest&) { return health(); });
    add_admin_routes();
  }

  void add_admin_routes() {
    admin_paths_.answer("GET", "/health", [this](const net::HttpRequest&) { return health(); });
    admin_paths_.on(
        "GET", "/metrics", [this](const net::HttpRequest&, const std::shared_ptr<net::HttpExchange>& exchange) {
          parts_.gather_reports(
              [this, exchange](const GatewayParts::Reports& reports) { exchange->respond(metrics(reports)); });
        });
    answer_up_to_date("/admin/status", [this](const net::HttpRequest&, const GatewayParts::Reports& reports) {
      return get_status(parts_, reports.events);
    });
    answer_up_to_date("/admin/decisions", [this](const net::HttpRequest& request, const GatewayParts::Reports&) {
      return get_decisions(parts_, request);
    });
    add_fleet_paths(admin_paths_, parts_, changes_);
    admin_paths_.answer("GET", "/admin/router_mode",
                        [this](const net::HttpRequest&) { return get_router_mode(parts_); });
    for (const char* method : {"PUT", "POST"}) {
      admin_paths_.answer(method, "/admin/router_mode",
                          [this](const net::HttpRequest& request) { return set_router_mode(parts_, request); });
    }
  }

  using UpToDateAnswer = std::function<net::HttpResponse(const net::HttpRequest&, const GatewayParts::Reports&)>;
  /// GET, answered when all loops have sent their queued messages and the KV events have made their report.
  void answer_up_to_date(const std::string& path, UpToDateAnswer answer) {
    admin_paths_.on("GET", path,
                    [this, answer = std::move(answer)](const net::HttpRequest& request,
                                                       const std::shared_ptr<net::HttpExchange>& exchange) {
                      parts_.gather_reports([answer, request, exchange](const GatewayParts::Reports& reports) {
                        exchange->respond(answer(request, reports));
                      });
                    });
  }

  [[nodiscard]] net::HttpResponse health() const {
    const char* const problem = is_draining_ ? "the gateway is shutting down" : "no worker is healthy";
    const bool good = !is_draining_ && parts_.fleet.any_available();
    net::HttpResponse answer =
        good ? json_answer(R"({"status":"ok"})") : error_answer({ErrorCode::kUnavailable, problem});
    answer.headers.set(kServiceField, std::string(kGatewayService));
    return answer;
  }

  [[nodiscard]] net::HttpResponse metrics(const GatewayParts::Reports& reports) const {
    net::HttpResponse response;
    response.headers.set("Content-Type", telemetry::kExpositionContentType);
    response.body = telemetry::expose([&](telemetry::MetricsPage& page) { write_metrics(parts_, reports, page); });
    return response;
  }

  net::EventLoop* loop_;
  GatewayParts parts_;
  ModelList models_;
  net::PathTable paths_{refused};        // for clients
  net::PathTable admin_paths_{refused};  // for administration
  net::Timer drain_timer_;
  FleetWatch watch_;
  FleetChanges changes_;
  DnsGroups groups_;
  spec::GatewaySpec in_file_;  // as its file had it last
  WatchedFiles files_;
  std::unique_ptr<ReadingPool> key_reader_;  // null until a file of keys is read again
  KeyLease lease_;                           // of the request that paths_ is handling
  std::unique_ptr<net::HttpServer> admin_server_;
  std::unique_ptr<net::HttpServer> server_;  // null if this loop takes no requests
  bool is_draining_ = false;
  bool out_of_time_ = false;
  std::size_t draining_ = 0;  // number of proxies that still drain
  std::size_t unsent_ = 0;    // afterwards: number of loops with bytes that slow clients have not taken
  std::function<void()> drained_;
};

}  // namespace

Result<std::unique_ptr<Service>> Service::create(net::EventLoop& loop, spec::GatewaySpec spec, SettingsFile file) {
  KVIST_TRY_VOID(check(spec));
  const spec::GatewaySpec in_file = spec;
  KVIST_TRY(spec.mode, mode_from_environment(process_environment, spec.mode));
  spec.threads = thread_count(spec);
  std::shared_ptr<const text::ModelText> text;
  if (!spec.tokenizer.empty()) {
    KVIST_TRY(text::ModelText model, text::ModelText::load(spec.tokenizer));
    text = std::make_shared<const text::ModelText>(std::move(model));
  }
  std::unique_ptr<RecordWriter> recording;
  if (!spec.record.file.empty()) {
    KVIST_TRY(recording, RecordWriter::open({.record = spec.record,
                                             .recording = new_recording(spec, net::now(), net::unix_seconds())}));
  }
  KVIST_TRY(auto servers, worker_settings(spec));
  KVIST_TRY(auto reporting, RequestReporter::open(spec, random_seed()));
  auto service = std::make_unique<GatewayService>(loop, std::move(spec), std::move(text), std::move(recording),
                                                  std::move(servers), std::move(reporting));
  if (!file.path.empty()) service->follow(std::move(file), in_file);
  KVIST_TRY_VOID(service->start());
  return std::unique_ptr<Service>(std::move(service));
}

}  // namespace kvist::gateway
