#include "kvist/gateway/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "kvist/base/error_context.h"
#include "kvist/base/json_writer.h"
#include "kvist/exposure/client_listener.h"
#include "kvist/gateway/admin.h"
#include "kvist/gateway/client_connections.h"
#include "kvist/gateway/dialect_door.h"
#include "kvist/gateway/error_answer.h"
#include "kvist/gateway/exposure_files.h"
#include "kvist/gateway/fleet_admin.h"
#include "kvist/gateway/followed_file.h"
#include "kvist/gateway/gateway_metrics.h"
#include "kvist/gateway/known_worker_settings.h"
#include "kvist/gateway/listener_metrics.h"
#include "kvist/gateway/mode_from_environment.h"
#include "kvist/gateway/model_list.h"
#include "kvist/gateway/passed_on_paths.h"
#include "kvist/gateway/peer_metrics.h"
#include "kvist/gateway/proxy_headers.h"
#include "kvist/gateway/served_models.h"
#include "kvist/gateway/service_field.h"
#include "kvist/gateway/shared_decisions.h"
#include "kvist/gateway/shared_parts.h"
#include "kvist/gateway/stranger_check.h"
#include "kvist/net/admin_listener.h"
#include "kvist/net/descriptor_limit.h"
#include "kvist/net/path_table.h"
#include "kvist/openai/codec.h"
#include "kvist/openai/errors.h"
#include "kvist/telemetry/log.h"
#include "kvist/telemetry/metrics.h"

namespace kvist::gateway {
namespace {

/// With up to so many threads, the one that routes takes requests too: they need no message between threads, and
/// routing is a small part of the work. With more, it would be the busiest thread and set the pace.
constexpr std::uint32_t kThreadsThatShare = 4;

std::uint32_t thread_count(const spec::GatewaySpec& gateway) {
  constexpr std::uint32_t kMost = 8;
  if (gateway.threads != 0) return gateway.threads;
  return std::clamp(std::thread::hardware_concurrency(), 1U, kMost);
}

/// Workers that come are taken to be of the same kind as those that are there.
std::size_t event_streams_of(const spec::ServedModelSpec& model) {
  const bool any_events =
      std::ranges::any_of(model.workers, [](const auto& worker) { return !worker.kv_events.empty(); }) ||
      std::ranges::any_of(model.worker_groups, [](const auto& group) { return group.kv_events_port != 0; });
  return any_events ? spec::worker_places(model) : 0;
}

/// The most connections of clients per loop.
std::uint32_t most_connections(const spec::GatewaySpec& gateway, std::uint32_t configured, std::uint32_t loops) {
  constexpr std::uint64_t kFew = 256;
  std::size_t event_streams = 0;
  for (const spec::ServedModelSpec& model : spec::served_models(gateway)) event_streams += event_streams_of(model);
  const DescriptorNeeds needs{.descriptors = net::raise_descriptor_limit(), .event_streams = event_streams};
  if (most_clients(needs) < kFew) {
    telemetry::log_warning("gateway", fmt::format("of {} file descriptors, {} are left for clients: raise the limit",
                                                  needs.descriptors, most_clients(needs)));
  }
  return most_connections(needs, configured, loops);
}

bool lists_models(const net::HttpRequest& request) {
  const std::string_view path = request.path();
  return (path == "/v1/models" || model_of_path(path)) && (request.method == "GET" || request.method == "HEAD");
}

/// Whether the request is none of the gateway's own endpoints and is passed to a worker.
bool is_for_a_worker(const net::HttpRequest& request) {
  return !lists_models(request) && is_passed_on(request.path()) && !dialect_of_path(request.path());
}

class GatewayService final : public Service {
 public:
  GatewayService(net::EventLoop& loop, spec::GatewaySpec gateway, std::map<std::string, net::ServerSettings> servers,
                 std::unique_ptr<RequestReporter> reporting, std::unique_ptr<PeerLink> peers,
                 std::vector<LoadedModel> models, Front front)
      : loop_(&loop),
        front_(front),
        shared_(loop, std::move(gateway), std::move(servers), std::move(reporting), std::move(peers)),
        models_(loop, shared_),
        decisions_(loop, shared_.peers.get(), models_),
        model_list_(shared_, models_),
        drain_timer_(loop),
        files_(loop),
        exposure_(shared_, files_) {
    shared_.decisions = &decisions_;
    for (LoadedModel& model : models) models_.make(std::move(model));
  }

  [[nodiscard]] Result<void> start() {
    KVIST_TRY_VOID(exposure_.open());
    add_routes();
    KVIST_TRY_VOID(listen_for_admin());
    if (front_ == Front::kListener) KVIST_TRY_VOID(within("gateway.http", listen()));
    KVIST_TRY_VOID(models_.start());
    if (shared_.peers) KVIST_TRY_VOID(shared_.peers->start());
    for (const auto& io : shared_.io_loops) io->start();
    files_.start();
    const std::string where = front_ == Front::kListener ? fmt::format("port {}, ", port()) : std::string();
    telemetry::log_info("gateway", fmt::format("{}administration on {}:{}, {} threads", where, shared_.spec.admin.host,
                                               admin_port(), thread_count(shared_.spec)));
    for (const ServedModel* const model : models_.all()) log_model(model->parts);
    return {};
  }

  /// Follows the file that has these settings now. Requires: start() was not called yet.
  void follow(SettingsFile file, const spec::GatewaySpec& now) {
    followed_ = std::make_unique<FollowedFile>(*loop_, models_, file.path, now);
    files_.add({file.path}, std::move(file.before), [this, path = file.path]() -> std::function<void()> {
      return [this, read = read_settings_file(path)] { followed_->take(read); };
    });
  }

  [[nodiscard]] std::uint16_t port() const override {
    return server_ ? server_->port() : shared_.io_loops.front()->port();
  }

  [[nodiscard]] std::uint16_t admin_port() const override { return admin_server_->port(); }

  void handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange,
              const std::shared_ptr<Carrier>& carrier) override {
    std::optional<KeyLease> admitted = admit(request, *exchange);
    if (!admitted) return;
    KeyLease lease = *std::move(admitted);
    const std::string_view path = request.path();
    const bool posted = request.method == "POST";
    if (posted && path == "/v1/chat/completions")
      return shared_.door.handle(Api::kChat, std::move(request), exchange, std::move(lease), carrier);
    if (posted && path == "/v1/completions")
      return shared_.door.handle(Api::kCompletions, std::move(request), exchange, std::move(lease), carrier);
    if (lists_models(request)) return model_list_.answer(request, exchange, std::move(lease));
    if (is_passed_on(path) || dialect_of(request))
      return shared_.door.pass_on(std::move(request), exchange, std::move(lease), carrier);
    lease.used(0);
    exchange->respond(refused(404, "it is none of the paths that go to a worker", ids_.of(request.headers)));
  }

  [[nodiscard]] bool is_ready() const override { return !is_draining_ && models_.any_available(); }

  void add_metrics(std::function<void(telemetry::MetricsPage&)> write) override {
    more_metrics_.push_back(std::move(write));
  }

  void reload() override {
    files_.ask();
    for (ServedModel* const model : models_.all()) model->changes.ask_for_files();
  }

  void shut_down(std::function<void()> done) override {
    const Duration timeout = shared_.spec.drain_timeout;
    telemetry::log_info("gateway", fmt::format("draining: {} requests are under way and have {} s", models_.under_way(),
                                               to_seconds(timeout)));
    if (followed_) followed_->stop();  // a model that came now would not be drained
    if (server_) server_->drain();
    for (const auto& io : shared_.io_loops) io->drain();
    drain_timer_.arm(net::now() + timeout, [this] { end_now(); });
    is_draining_ = true;
    const std::vector<ServedModel*> models = models_.all();
    draining_ = 1 + models.size() * (1 + shared_.io_loops.size());
    drained_ = std::move(done);
    for (ServedModel* const model : models) {
      model->parts.on_each_proxy([this, home = shared_.home](Proxy& proxy) {
        proxy.drain([this, home] {
          home->loop->post([this, home] {
            if (home->open) on_drained();
          });
        });
      });
    }
    loop_->post([this, home = shared_.home] {
      if (home->open) on_drained();
    });
  }

  void end_now() override {
    out_of_time_ = true;
    for (ServedModel* const model : models_.all()) {
      model->parts.on_each_proxy([](Proxy& proxy) { proxy.break_off_all(); });
      model->parts.channel.refuse_held({ErrorCode::kUnavailable, "the gateway is shutting down"});
    }
    if (draining_ == 0) end_drain();
  }

 private:
  /// A proxy has no request any more. When none has, slow clients have the rest of the time to read what is theirs.
  void on_drained() {
    if (--draining_ > 0) return;
    if (out_of_time_) return end_drain();
    unsent_ = shared_.io_loops.size() + (server_ ? 1 : 0);
    if (unsent_ == 0) return end_drain();
    const auto sent = [this] {
      if (--unsent_ == 0) end_drain();
    };
    if (server_) server_->when_sent(sent);
    for (const auto& io : shared_.io_loops) io->when_sent(sent);
  }
  void end_drain() {
    drain_timer_.cancel();
    if (const auto done = std::exchange(drained_, nullptr)) done();
  }

  static void log_model(const ModelParts& parts) {
    telemetry::log_info(
        "gateway",
        fmt::format("model {}, {} workers, routing mode {}, KV blocks of {} tokens{}{}{}{}", parts.spec.model,
                    parts.spec.workers.size(), to_string(parts.router.mode()), parts.spec.block_size,
                    parts.spec.tokenizer.empty() ? "" : ", tokenizer and chat template of ", parts.spec.tokenizer,
                    parts.recorder ? ", traffic is recorded into " : "", parts.spec.record.file));
  }

  void handle_admin(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
    if (!shared_.admin_keys || needs_no_key(request)) return admin_paths_.handle(std::move(request), exchange);
    KeyGate::Verdict verdict = shared_.admin_keys->admit(request, net::now());
    if (verdict.refusal) return exchange->respond(*std::move(verdict.refusal));
    admin_paths_.handle(std::move(request), exchange);
  }

  /// The lease of the request's key, or an empty one if it needs none; nothing: the request was refused.
  [[nodiscard]] std::optional<KeyLease> admit(const net::HttpRequest& request, net::HttpExchange& exchange) {
    if (!shared_.keys || needs_no_key(request)) return KeyLease();
    KeyGate::Verdict verdict = shared_.keys->admit(request, net::now());
    if (!verdict.refusal) return std::move(verdict.lease);
    if (shared_.reporter)
      shared_.reporter->refused(request, given_request_id(verdict.refusal->headers), verdict.refusal->status,
                                verdict.refused_key, net::now());
    exchange.respond(in_form_of(request, *std::move(verdict.refusal)));
    return std::nullopt;
  }

  /// A request of a client that came to this loop.
  void handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
    std::optional<KeyLease> lease = admit(request, *exchange);
    if (!lease) return;
    lease_ = *std::move(lease);
    paths_.handle(std::move(request), exchange);
    lease_.used(0);  // nobody took it: the gateway has answered by itself
    lease_ = {};
  }

  /// On this loop, with connections of its own, so that it answers when clients have taken all others.
  [[nodiscard]] Result<void> listen_for_admin() {
    const spec::Endpoint& admin = shared_.spec.admin;
    const bool asks_who = shared_.asks_who_administers();
    net::HttpServerOptions options = net::admin_listener(admin.host, admin.port, asks_who);
    options.tls = shared_.admin_tls;
    options.before_body = stranger_check(shared_.admin_keys.get(), nullptr);
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
    const spec::GatewaySpec& gateway = shared_.spec;
    net::HttpServerOptions options =
        exposure::client_listener({gateway.http, gateway.http_limits, gateway.max_body_bytes, gateway.cors});
    options.tls = shared_.tls;
    options.before_body = stranger_check(shared_.keys.get(), shared_.reporter.get());
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
      KVIST_TRY(auto io, IoLoop::create({.client = SharedParts::client_options(shared_.spec, shared_.servers),
                                         .server = options,
                                         .reporter = shared_.reporter.get()},
                                        shared_.home,
                                        {.keys = shared_.keys.get(),
                                         .is_passed_on = is_for_a_worker,
                                         .answer = [this](net::HttpRequest request,
                                                          const std::shared_ptr<net::HttpExchange>& exchange) {
                                           paths_.handle(std::move(request), exchange);
                                         }}));
      shared_.io_loops.push_back(std::move(io));
    }
    return {};
  }

  void add_routes() {
    const auto proxied = [this](Api api) {
      return [this, api](net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
        shared_.door.handle(api, std::move(request), exchange, std::move(lease_));
      };
    };
    paths_.on("POST", "/v1/chat/completions", proxied(Api::kChat));
    paths_.on("POST", "/v1/completions", proxied(Api::kCompletions));
    for (const char* path : {"/v1/messages", "/v1/messages/count_tokens", "/v1/responses"}) {
      paths_.on("POST", path, [this](net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
        const auto dialect = dialect_of(request);
        shared_.dialects.handle(*dialect, std::move(request), exchange, std::move(lease_));
      });
    }
    paths_.on("GET", "/v1/models",
              [this](const net::HttpRequest& request, const std::shared_ptr<net::HttpExchange>& exchange) {
                model_list_.answer(request, exchange, std::move(lease_));
              });
    const auto takes = [](std::string_view path) {
      return (is_passed_on(path) && !dialect_of_path(path)) || model_of_path(path);
    };
    paths_.on_rest(takes, [this](net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) {
      if (lists_models(request)) return model_list_.answer(request, exchange, std::move(lease_));
      if (!is_passed_on(request.path()))
        return exchange->respond(refused(404, "only GET knows a path with escapes", ids_.of(request.headers)));
      shared_.door.pass_on(std::move(request), exchange, std::move(lease_));
    });
    paths_.answer("GET", "/health", [this](const net::HttpRequest&) { return health(); });
    add_admin_routes();
  }

  void add_admin_routes() {
    admin_paths_.answer("GET", "/health", [this](const net::HttpRequest&) { return health(); });
    answer_up_to_date(
        "/metrics", [this](const net::HttpRequest&, const ServedModels::Reports& reports) { return metrics(reports); });
    answer_up_to_date("/admin/status", [this](const net::HttpRequest&, const ServedModels::Reports& reports) {
      return get_status(shared_, models_, reports);
    });
    answer_up_to_date("/admin/decisions", [this](const net::HttpRequest& request, const ServedModels::Reports&) {
      return get_decisions(models_, request);
    });
    add_fleet_paths(admin_paths_, shared_, models_);
    if (shared_.peers) {
      admin_paths_.answer("GET", "/admin/peers", [this](const net::HttpRequest&) {
        JsonWriter json;
        write_peers(json, *shared_.peers, models_, net::now());
        return json_answer(json.take());
      });
    }
    admin_paths_.answer("GET", "/admin/router_mode",
                        [this](const net::HttpRequest& request) { return get_router_mode(shared_, models_, request); });
    for (const char* method : {"PUT", "POST"}) {
      admin_paths_.answer(method, "/admin/router_mode", [this](const net::HttpRequest& request) {
        return set_router_mode(shared_, models_, request);
      });
    }
  }

  using UpToDateAnswer = std::function<net::HttpResponse(const net::HttpRequest&, const ServedModels::Reports&)>;
  /// GET, answered when all loops have sent their queued messages and the KV events have made their report.
  void answer_up_to_date(const std::string& path, UpToDateAnswer answer) {
    admin_paths_.on("GET", path,
                    [this, answer = std::move(answer)](const net::HttpRequest& request,
                                                       const std::shared_ptr<net::HttpExchange>& exchange) {
                      models_.gather_reports([answer, request, exchange](const ServedModels::Reports& reports) {
                        exchange->respond(answer(request, reports));
                      });
                    });
  }

  [[nodiscard]] net::HttpResponse health() const {
    const char* const problem = is_draining_ ? "the gateway is shutting down" : "no worker is healthy";
    const bool good = is_ready();
    net::HttpResponse answer = good ? json_answer(healthy()) : error_answer({ErrorCode::kUnavailable, problem});
    answer.headers.set(kServiceField, std::string(kGatewayService));
    return answer;
  }

  /// A gateway that is cut off from the others is well: it routes by what it sees itself.
  [[nodiscard]] std::string healthy() const {
    JsonWriter json;
    json.begin_object().field("status", "ok");
    if (shared_.peers) json.field("peers", peers_word(shared_.peers->report()));
    return json.end_object().take();
  }

  [[nodiscard]] net::HttpResponse metrics(const ServedModels::Reports& reports) const {
    net::HttpResponse response;
    response.headers.set("Content-Type", telemetry::kExpositionContentType);
    response.body = telemetry::expose([&](telemetry::MetricsPage& page) {
      write_metrics(shared_, reports, page);
      net::HttpServerReport listeners = reports.listeners;
      if (server_) listeners += server_->report();
      if (front_ == Front::kListener) write_listener_metrics(listeners, page);
      if (shared_.peers) write_peer_metrics(*shared_.peers, decisions_, models_, page);
      for (const auto& write : more_metrics_) write(page);
    });
    return response;
  }

  net::EventLoop* loop_;
  Front front_;
  SharedParts shared_;
  ServedModels models_;
  SharedDecisions decisions_;
  ModelList model_list_;
  RequestIds ids_{random_seed()};  // of requests that no path takes
  /// For clients.
  net::PathTable paths_{[this](const net::HttpRequest& request, int status, const std::string& message) {
    return in_form_of(request, refused(status, message, ids_.of(request.headers)));
  }};
  /// For administration.
  net::PathTable admin_paths_{[this](const net::HttpRequest& request, int status, const std::string& message) {
    return refused(status, message, ids_.of(request.headers));
  }};
  net::Timer drain_timer_;
  net::WatchedFiles files_;
  ExposureFiles exposure_;
  std::unique_ptr<FollowedFile> followed_;  // null if the settings are of no file
  KeyLease lease_;                          // of the request that paths_ is handling
  std::unique_ptr<net::HttpServer> admin_server_;
  std::unique_ptr<net::HttpServer> server_;  // null if this loop takes no requests
  std::vector<std::function<void(telemetry::MetricsPage&)>> more_metrics_;
  bool is_draining_ = false;
  bool out_of_time_ = false;
  std::size_t draining_ = 0;  // number of proxies that still drain
  std::size_t unsent_ = 0;    // afterwards: number of loops with bytes that slow clients have not taken
  std::function<void()> drained_;
};

}  // namespace

Result<std::unique_ptr<Service>> Service::create(net::EventLoop& loop, spec::GatewaySpec spec, SettingsFile file,
                                                 Front front) {
  KVIST_TRY_VOID(check(spec));
  const spec::GatewaySpec in_file = spec;
  spec.threads = thread_count(spec);
  std::vector<LoadedModel> models;
  std::map<std::string, net::ServerSettings> servers;
  for (spec::ServedModelSpec& model : spec::served_models(spec)) {
    KnownWorkerSettings worker_files;
    KVIST_TRY(auto settings, worker_settings(model, worker_files));
    servers.merge(settings);
    KVIST_TRY(model.mode, mode_from_environment(process_environment, model.mode));
    KVIST_TRY(LoadedModel loaded, load_model(std::move(model)));
    loaded.worker_files = std::move(worker_files);
    models.push_back(std::move(loaded));
  }
  KVIST_TRY(auto reporting, RequestReporter::open(spec, random_seed()));
  std::unique_ptr<PeerLink> peers;
  if (spec.peers.is_given()) {
    KVIST_TRY(peers, PeerLink::create(loop, spec));
  }
  auto service = std::make_unique<GatewayService>(loop, std::move(spec), std::move(servers), std::move(reporting),
                                                  std::move(peers), std::move(models), front);
  if (!file.path.empty()) service->follow(std::move(file), in_file);
  KVIST_TRY_VOID(service->start());
  return std::unique_ptr<Service>(std::move(service));
}

}  // namespace kvist::gateway
