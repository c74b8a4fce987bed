#include "kvist/doctor/collector.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kvist/base/yaml.h"
#include "kvist/doctor/cluster_facts.h"
#include "kvist/gateway/dns_groups.h"
#include "kvist/gateway/known_worker_settings.h"
#include "kvist/gateway/prompt_reader.h"
#include "kvist/gateway/service_field.h"
#include "kvist/net/dns_lookup.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_client.h"
#include "kvist/net/port_probe.h"
#include "kvist/net/time_of_day.h"
#include "kvist/net/tls.h"
#include "kvist/openai/codec.h"
#include "kvist/perfmodel/step_time_model.h"
#include "kvist/spec/files.h"
#include "kvist/text/model_text.h"

namespace kvist::doctor {
namespace {

using gateway::TokenizerCheck;
using gateway::TokenizerMatch;

/// How far the clock of who wrote this Date field is ahead; nothing if it has none.
std::optional<double> clock_ahead(const net::HttpResponse& answer) {
  const auto field = answer.headers.find("Date");
  std::tm parts{};
  if (!field || ::strptime(std::string(*field).c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts) == nullptr)
    return std::nullopt;
  return static_cast<double>(::timegm(&parts)) - net::unix_seconds();
}

/// The questions to all workers, at once, on a loop of their own.
class Questions {
 public:
  Questions(Snapshot& snapshot, const CollectOptions& options, std::map<std::string, net::ServerSettings> servers)
      : snapshot_(&snapshot), options_(options), client_(loop_, client_options(std::move(servers))) {}

  /// The next call answers all questions that were put.
  void run() {
    if (open_ > 0) loop_.run();
  }

  void ask_all() {
    for (std::size_t i = 0; i < snapshot_->workers.size(); ++i) {
      ask(i, "/health", [](WorkerFacts& worker, const net::HttpResponse& answer) {
        worker.health_status = answer.status;
        worker.clock_ahead_s = clock_ahead(answer);
      });
      ask(i, "/v1/models",
          [this](WorkerFacts& worker, const net::HttpResponse& answer) { take_models(worker, answer); });
      ask(i, "/metrics", [](WorkerFacts& worker, const net::HttpResponse& answer) {
        worker.metrics_status = answer.status;
        constexpr int kOk = 200;
        if (answer.status != kOk) return;
        if (const auto engine = read_engine_facts(answer.body)) worker.engine = *engine;
      });
    }
  }

  /// Compares tokens with each worker; `reader` outlives this object.
  void compare_tokenizers(const gateway::PromptReader& reader) {
    for (std::size_t i = 0; i < snapshot_->workers.size(); ++i) {
      ++open_;
      WorkerFacts& worker = snapshot_->workers[i];
      auto compared = std::make_shared<bool>(false);
      const auto done = [this, i, compared] {
        if (std::exchange(*compared, true)) return;
        snapshot_->workers[i].tokenizer = checks_[i]->match();
        end_one();
      };
      checks_.push_back(std::make_unique<TokenizerCheck>(loop_, client_, reader, worker.name, worker.url,
                                                         TokenizerCheck::Options{.timeout = options_.timeout}, done));
      timers_.push_back(std::make_unique<net::Timer>(loop_));
      // A worker that does not answer changes nothing, and is asked again and again.
      timers_.back()->arm(net::now() + options_.timeout, done);
    }
    for (const auto& check : checks_) check->start();
  }

 private:
  using Take = std::function<void(WorkerFacts&, const net::HttpResponse&)>;

  [[nodiscard]] net::HttpClientOptions client_options(std::map<std::string, net::ServerSettings> servers) const {
    net::HttpClientOptions options;
    options.connect_timeout = options_.timeout;
    options.max_buffered_body_bytes = 16ULL << 20;
    options.servers = std::move(servers);
    return options;
  }

  void ask(std::size_t worker, const std::string& path, Take take) {
    ++open_;
    net::HttpRequest request{.method = "GET", .target = path, .headers = {}, .body = {}};
    calls_.push_back(client_.fetch(snapshot_->workers[worker].url, std::move(request), options_.timeout,
                                   [this, worker, take = std::move(take)](const Result<net::HttpResponse>& answer) {
                                     WorkerFacts& facts = snapshot_->workers[worker];
                                     if (answer) {
                                       take(facts, *answer);
                                     } else if (facts.problem.empty()) {
                                       facts.problem = answer.error().message;
                                     }
                                     end_one();
                                   }));
  }

  void take_models(WorkerFacts& worker, const net::HttpResponse& answer) const {
    constexpr int kOk = 200;
    worker.models_status = answer.status;
    if (answer.status != kOk) return;
    const auto list = openai::parse_model_list(answer.body);
    if (!list) return;
    for (const openai::ModelCard& card : *list) {
      worker.models.push_back(card.id);
      if (!card.parent.empty()) worker.adapters.push_back(card.id);
      if (card.id == snapshot_->model) worker.max_model_len = card.max_model_len;
    }
  }

  void end_one() {
    if (--open_ == 0) loop_.stop();
  }

  Snapshot* snapshot_;
  CollectOptions options_;
  net::EventLoop loop_;
  net::HttpClient client_;
  std::vector<std::unique_ptr<net::HttpCall>> calls_;
  std::vector<std::unique_ptr<TokenizerCheck>> checks_;  // by worker, as the next
  std::vector<std::unique_ptr<net::Timer>> timers_;
  std::size_t open_ = 0;
};

template <class Number>
Number read_number(const char* file) {
  Number number{};
  std::ifstream stream(file);
  stream >> number;
  return stream ? number : Number{};
}

MachineFacts machine_facts() {
  MachineFacts machine;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) machine.descriptors = limit.rlim_max;
  machine.somaxconn = read_number<std::uint64_t>("/proc/sys/net/core/somaxconn");
  std::ifstream range("/proc/sys/net/ipv4/ip_local_port_range");
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  if (range >> first >> last && last >= first) machine.local_ports = last - first + 1;
  return machine;
}

void add_port(Snapshot& snapshot, const std::string& what, const std::string& host, std::uint16_t port) {
  if (port == 0) return;
  PortFacts facts{.what = what, .address = fmt::format("{}:{}", host, port)};
  if (const auto free = net::probe_listen(host, port); !free) facts.problem = free.error().message;
  snapshot.ports.push_back(std::move(facts));
}

void add_file(Snapshot& snapshot, const std::string& setting, const std::string& file) {
  if (file.empty()) return;
  const std::ifstream stream(file);
  if (!stream || std::filesystem::is_directory(file)) snapshot.files.emplace_back(setting, file + " cannot be read");
}

void add_tls(Snapshot& snapshot, const std::string& setting, const spec::ServerTlsSpec& tls) {
  add_file(snapshot, setting + ".certificate", tls.certificate);
  add_file(snapshot, setting + ".key", tls.key);
  add_file(snapshot, setting + ".client_ca", tls.client_ca);
}

/// What the file says of the gateway itself, apart from its models and their workers.
Snapshot begin_of(const spec::GatewaySpec& gateway, const std::string& where) {
  Snapshot snapshot;
  snapshot.connections = gateway.http_limits.connections;
  snapshot.machine = machine_facts();
  add_port(snapshot, where + ".http", gateway.http.host, gateway.http.port);
  add_port(snapshot, where + ".admin", gateway.admin.host, gateway.admin.port);
  add_tls(snapshot, where + ".tls", gateway.tls);
  add_tls(snapshot, where + ".admin_tls", gateway.admin_tls);
  add_file(snapshot, where + ".api_keys.file", gateway.api_keys.file);
  add_file(snapshot, where + ".api_keys.admin_file", gateway.api_keys.admin_file);
  return snapshot;
}

void add_worker_ports(Snapshot& snapshot, const spec::WorkerSpec& worker, const std::string& where) {
  add_port(snapshot, where + ".http", worker.http.host, worker.http.port);
  add_port(snapshot, where + ".admin", worker.admin.host, worker.admin.port);
  add_port(snapshot, where + ".kv_events_port", worker.http.host, worker.kv_events_port);
  add_port(snapshot, where + ".kv_replay_port", worker.http.host, worker.kv_replay_port);
  add_tls(snapshot, where + ".tls", worker.tls);
  add_tls(snapshot, where + ".admin_tls", worker.admin_tls);
  add_file(snapshot, where + ".api_key_file", worker.api_key_file);
}

EventPort event_port(const std::string& address, std::vector<std::string_view> peer_types, Duration timeout) {
  EventPort port{.address = address};
  if (address.empty()) return port;
  if (const auto reached = net::probe_zmq(address, std::move(peer_types), timeout); !reached)
    port.problem = reached.error().message;
  return port;
}

/// Whether what listens there says that it is a kvist gateway.
bool is_gateway(const spec::Endpoint& endpoint, Duration timeout) {
  std::string host = endpoint.host;
  if (host == "0.0.0.0") host = "127.0.0.1";
  if (host == "::") host = "::1";
  if (host.contains(':')) host = fmt::format("[{}]", host);
  const auto answer = net::fetch_blocking("GET", fmt::format("http://{}:{}/health", host, endpoint.port), "", timeout);
  return answer && answer->headers.find(gateway::kServiceField) == gateway::kGatewayService;
}

/// What has the ports that the file wants. A listener with TLS cannot be asked without knowing whom to trust, so it
/// counts as the gateway's if the other one is.
void recognise_gateway(Snapshot& snapshot, const spec::GatewaySpec& gateway, Duration timeout) {
  bool any = false;
  const auto ask = [&](std::string_view what, const spec::Endpoint& endpoint, bool tls) {
    for (PortFacts& port : snapshot.ports) {
      if (port.what != what || port.problem.empty()) continue;
      port.by_gateway = tls ? any : is_gateway(endpoint, timeout);
      any = any || port.by_gateway;
    }
  };
  const bool public_tls = !gateway.tls.certificate.empty();
  const bool admin_tls = !gateway.admin_tls.certificate.empty();
  if (!public_tls) ask("gateway.http", gateway.http, false);
  ask("gateway.admin", gateway.admin, admin_tls);
  if (public_tls) ask("gateway.http", gateway.http, true);
}

/// The workers of the file, and those that its DNS names and clusters lead to at the moment.
std::vector<spec::UpstreamSpec> workers_of(const spec::ServedModelSpec& model, Snapshot& snapshot, Duration timeout) {
  constexpr std::size_t kMostOfName = 64;
  std::vector<spec::UpstreamSpec> workers = model.workers;
  for (const spec::WorkerGroupSpec& group : model.worker_groups) {
    if (group.kubernetes) {
      snapshot.clusters.push_back(ask_cluster(group, model.model, timeout, workers));
      continue;
    }
    DnsFacts facts{.group = group.name, .name = group.dns_name};
    const auto answer = net::look_up(gateway::question_of(group));
    if (answer) {
      std::vector<spec::UpstreamSpec> found = gateway::workers_of(group, answer->endpoints);
      facts.addresses = found.size();
      facts.unexamined = found.size() - std::min(found.size(), kMostOfName);
      found.resize(found.size() - facts.unexamined);
      workers.insert(workers.end(), found.begin(), found.end());
    } else {
      facts.problem = answer.error().message;
    }
    snapshot.dns.push_back(std::move(facts));
  }
  return workers;
}

/// What the file says of the first model, or of one of the further ones.
void describe(Snapshot& snapshot, const spec::ServedModelSpec& model) {
  snapshot.model = model.model;
  snapshot.block_size = model.block_size;
  snapshot.uses_events = uses_events(model.mode);
  snapshot.mode = to_string(model.mode);
}

/// The facts of one model's workers. `where`: its mapping in the file.
void collect(Snapshot& snapshot, spec::ServedModelSpec model, const std::string& where, const CollectOptions& options) {
  model.workers = workers_of(model, snapshot, options.timeout);
  for (const spec::UpstreamSpec& upstream : model.workers) {
    snapshot.workers.push_back({.name = upstream.name, .url = upstream.url});
    snapshot.workers.back().events = event_port(upstream.kv_events, {"PUB", "XPUB"}, options.timeout);
    snapshot.workers.back().replay = event_port(upstream.kv_replay, {"ROUTER", "DEALER", "REP"}, options.timeout);
  }
  std::map<std::string, net::ServerSettings> servers;
  gateway::KnownWorkerSettings known;
  if (auto settings = gateway::worker_settings(model, known)) {
    servers = *std::move(settings);
  } else {
    snapshot.files.emplace_back(where + ".workers", settings.error().message);
  }
  std::shared_ptr<const text::ModelText> model_text;
  bool has_tokenizer = model.tokenizer.empty();
  if (!model.tokenizer.empty()) {
    auto loaded = text::ModelText::load(model.tokenizer);
    if (loaded) {
      model_text = std::make_shared<const text::ModelText>(*std::move(loaded));
      has_tokenizer = true;
    } else {
      snapshot.files.emplace_back(where + ".tokenizer", loaded.error().message);
    }
  }
  const gateway::PromptReader reader(model.model, model.block_size, std::move(model_text));
  Questions questions(snapshot, options, std::move(servers));
  questions.ask_all();
  if (has_tokenizer) questions.compare_tokenizers(reader);
  questions.run();
}

Snapshot collect(const spec::GatewaySpec& gateway, const CollectOptions& options) {
  Snapshot snapshot = begin_of(gateway, "gateway");
  recognise_gateway(snapshot, gateway, options.timeout);
  const std::vector<spec::ServedModelSpec> models = spec::served_models(gateway);
  snapshot.further.resize(models.size() - 1);
  for (std::size_t i = 0; i < models.size(); ++i) {
    Snapshot& of_model = i == 0 ? snapshot : snapshot.further[i - 1];
    describe(of_model, models[i]);
    collect(of_model, models[i], gateway.models.empty() ? "gateway" : fmt::format("gateway.models[{}]", i), options);
  }
  return snapshot;
}

void check_profile(Snapshot& snapshot, const spec::WorkerSpec& worker, const std::string& where) {
  if (const auto resolved = perfmodel::resolve(worker); !resolved)
    snapshot.profiles.emplace_back(where, resolved.error().message);
}

std::string without_slashes(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  return url;
}

}  // namespace

Result<Snapshot> collect_from_file(const std::string& file, const CollectOptions& options) {
  KVIST_TRY(const YamlNode root, YamlNode::load(file));
  if (root.get("deployment")) {
    KVIST_TRY(const spec::DeploymentSpec deployment, spec::load_deployment(file));
    Snapshot snapshot = begin_of(deployment.gateway, "gateway");
    describe(snapshot, spec::served_models(deployment.gateway).front());
    for (const spec::WorkerSpec& worker : deployment.workers) {
      add_worker_ports(snapshot, worker, worker.name);
      check_profile(snapshot, worker, "deployment.workers");
    }
    return snapshot;
  }
  if (root.get("worker")) {
    KVIST_TRY(const spec::WorkerSpec worker, spec::load_worker(file));
    Snapshot snapshot{.model = worker.model, .block_size = worker.block_size};
    snapshot.machine = machine_facts();
    add_worker_ports(snapshot, worker, "worker");
    check_profile(snapshot, worker, "worker");
    return snapshot;
  }
  KVIST_TRY(const spec::GatewaySpec gateway, spec::load_gateway(file));
  return collect(gateway, options);
}

Result<Snapshot> collect_from_gateway(std::string url, const CollectOptions& options) {
  url = without_slashes(std::move(url));
  const auto get = [&](const std::string& path) -> Result<net::HttpResponse> {
    net::Headers headers;
    if (!options.api_key.empty()) headers.set("Authorization", "Bearer " + options.api_key);
    KVIST_TRY(net::HttpResponse answer,
              net::fetch_blocking("GET", url + path, "", options.timeout, std::move(headers), options.tls));
    constexpr int kOk = 200;
    if (answer.status == kOk) return answer;
    return fail(
        ErrorCode::kUnavailable,
        fmt::format("{}{} answers {}: expected the gateway's listener for administration", url, path, answer.status));
  };
  KVIST_TRY(const net::HttpResponse status, get("/admin/status"));
  KVIST_TRY(const net::HttpResponse metrics, get("/metrics"));
  KVIST_TRY(Snapshot snapshot, read_gateway_facts(status.body, metrics.body));
  snapshot.clock_ahead_s = clock_ahead(status);
  const auto ask = [&](Snapshot& model) {
    Questions questions(model, options, {});
    questions.ask_all();
    questions.run();
  };
  ask(snapshot);
  for (Snapshot& model : snapshot.further) ask(model);
  return snapshot;
}

Result<void> ask_whether_alive(const std::string& url, const CollectOptions& options) {
  const std::string asked = without_slashes(url) + "/health";
  KVIST_TRY(const net::HttpResponse answer, net::fetch_blocking("GET", asked, "", options.timeout, {}, options.tls));
  constexpr int kOk = 200;
  if (answer.status == kOk) return {};
  return fail(ErrorCode::kUnavailable, fmt::format("{} answers {}", asked, answer.status));
}

}  // namespace kvist::doctor
