#include "kvist/gateway/gateway_parts.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "kvist/net/time_of_day.h"
#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

std::vector<std::string> names_of(const std::vector<spec::UpstreamSpec>& workers) {
  std::vector<std::string> names;
  names.reserve(workers.size());
  for (const spec::UpstreamSpec& worker : workers) names.push_back(worker.name);
  return names;
}

void log_models(const dispatch::ModelWatch& models, WorkerId id, const std::string& name) {
  constexpr std::string_view kComponent = "fleet";
  const dispatch::ModelWatch::Worker& worker = models.worker(id);
  if (worker.match == dispatch::ModelMatch::kOther) {
    telemetry::log_error(
        kComponent, fmt::format("{} serves {}, not {}: {}", name, worker.served, models.model(),
                                models.is_usable(id) ? "as no worker is known to serve that, requests go there anyway"
                                                     : "it gets no requests"));
  } else if (worker.max_model_len != 0 && worker.max_model_len < models.longest_context()) {
    telemetry::log_warning(
        kComponent, fmt::format("{} has a context of {} tokens, others have {}: longer prompts go to those", name,
                                worker.max_model_len, models.longest_context()));
  } else if (worker.changes > 1 && worker.match == dispatch::ModelMatch::kSame) {
    telemetry::log_info(kComponent, fmt::format("{} serves {} again, with a context of {} tokens", name, worker.served,
                                                worker.max_model_len));
  }
}

}  // namespace

GatewayParts::GatewayParts(net::EventLoop& loop, spec::GatewaySpec gateway_spec, std::uint64_t request_id_seed,
                           std::shared_ptr<const text::ModelText> text, std::unique_ptr<RecordWriter> recording,
                           std::map<std::string, net::ServerSettings> worker_servers,
                           std::unique_ptr<RequestReporter> reporting)
    : spec(std::move(gateway_spec)),
      recorder(std::move(recording)),
      reporter(std::move(reporting)),
      servers(std::move(worker_servers)),
      started_unix_s(net::unix_seconds()),
      client(loop, client_options()),
      fleet(names_of(spec.workers), {}),
      models(spec.model, spec.workers.size()),
      router({.model = spec.model,
              .block_size = spec.block_size,
              .workers = spec.workers.size(),
              .mode = spec.mode,
              .seed = spec.seed,
              .latency_prior = spec.latency_prior,
              .make_gate = KvEvents::make_gate(spec.threads > 1)}),
      dispatcher(dispatch::Dispatcher::Options::of(spec), fleet, router),
      reader(spec.model, spec.block_size, std::move(text)),
      channel(dispatcher),
      proxy(loop, proxy_options(request_id_seed), client, channel, reader, spec.workers),
      routing(std::make_shared<RoutingThread>()),
      events(loop, router, spec.workers.size(), spec.threads > 1) {
  routing->loop = &loop;
  routing->channel = &channel;
  for (std::uint32_t i = 0; i < spec.workers.size(); ++i) {
    const spec::UpstreamLimits& limits = spec.workers[i].limits;
    // The block size that a worker reports says nothing about a configured number of blocks.
    fleet.configure_limits(WorkerId(i), {.block_size = limits.kv_blocks != 0 ? spec.block_size : 0,
                                         .kv_blocks = limits.kv_blocks,
                                         .max_batch_size = limits.max_batch_size,
                                         .max_num_tokens = limits.max_num_tokens});
    tokenizers.push_back(
        std::make_unique<TokenizerCheck>(loop, client, reader, spec.workers[i].name, spec.workers[i].url,
                                         TokenizerCheck::Options{.timeout = spec.connect_timeout}, [this, i] {
                                           update_events_exact(WorkerId(i));
                                           update_readings();
                                         }));
    monitors.push_back(std::make_unique<WorkerMonitor>(
        loop, client, fleet, WorkerId(i), spec.workers[i].url,
        WorkerMonitor::Options{.interval = spec.health_interval,
                               .doubt_interval = spec.doubt_interval,
                               .model_interval = spec.model_interval,
                               .timeout = spec.connect_timeout,
                               .block_size = spec.block_size},
        WorkerMonitor::Handlers{
            .on_healthy = [this, i] { tokenizers[i]->start(); },
            .on_restarted =
                [this, i] {
                  router.on_worker_restarted(WorkerId(i));
                  events.on_worker_restarted(WorkerId(i));
                  dispatcher.on_worker_restarted(WorkerId(i), net::now());
                  on_each_proxy([i](Proxy& each) { each.on_worker_restarted(WorkerId(i)); });
                  tokenizers[i]->start();
                },
            .on_block_size_changed = [this, i] { update_events_exact(WorkerId(i)); },
            .on_sign_of_life = [this, i] { dispatcher.on_sign_of_life(WorkerId(i), net::now()); },
            .on_kv_event_batches = [this, i](std::uint64_t batches) { events.on_published(WorkerId(i), batches); },
            .on_models = [this, i](const std::vector<dispatch::ServedModel>& list) { on_models(WorkerId(i), list); }}));
  }
  channel.on_doubt([this](WorkerId worker) { monitors[worker.value()]->doubt(); });
  events.on_exact_changed([this](WorkerId worker) { on_events_changed(worker); });
}

GatewayParts::~GatewayParts() {
  routing->channel = nullptr;
  io_loops.clear();
}

Proxy::Options GatewayParts::proxy_options(std::uint64_t seed) const {
  return {.upstream_timeout = spec.upstream_timeout,
          .stream_idle_timeout = spec.stream_idle_timeout,
          .request_id_seed = seed,
          .recorder = recorder.get(),
          .pass_client_keys = spec.pass_client_keys,
          .migration = spec.migration,
          .reporter = reporter.get()};
}

net::HttpClientOptions GatewayParts::client_options() const {
  net::HttpClientOptions options;
  options.connect_timeout = spec.connect_timeout;
  options.servers = servers;
  return options;
}

void GatewayParts::on_each_proxy(const std::function<void(Proxy&)>& work) {
  work(proxy);
  for (const auto& io : io_loops) io->run(work);
}

void GatewayParts::gather_reports(std::function<void(const Reports&)> then) {
  struct Gathering {
    Reports reports;
    std::size_t open = 0;
    std::function<void(const Reports&)> then;
    void take_one() {
      if (--open == 0) then(reports);
    }
  };
  const auto gathering = std::make_shared<Gathering>();
  gathering->reports.proxies = proxy.report();
  gathering->open = io_loops.size() + 1;
  gathering->then = std::move(then);
  events.report([gathering](const KvEventsReport& report) {
    gathering->reports.events = report;
    gathering->take_one();
  });
  for (const auto& io : io_loops) {
    io->run([gathering, home = routing](Proxy& each) {
      home->loop->post([gathering, home, report = each.report()] {
        if (home->channel == nullptr) return;
        gathering->reports.proxies.add(report);
        gathering->take_one();
      });
    });
  }
}

void GatewayParts::on_events_changed(WorkerId worker) {
  update_events_exact(worker);
  monitors[worker.value()]->doubt();
}

void GatewayParts::on_models(WorkerId worker, const std::vector<dispatch::ServedModel>& list) {
  if (!models.on_list(worker, list)) return;
  // What one worker serves can change what is to be thought of the others.
  for (std::uint32_t i = 0; i < fleet.size(); ++i)
    fleet.set_model(WorkerId(i), models.is_usable(WorkerId(i)), models.worker(WorkerId(i)).max_model_len);
  log_models(models, worker, fleet.worker(worker).name);
}

bool GatewayParts::events_exact(WorkerId worker) const {
  return events.exact(worker) && !monitors[worker.value()]->block_size_mismatch() &&
         tokenizers[worker.value()]->match() != TokenizerMatch::kDifferent;
}

void GatewayParts::update_readings() {
  FleetReadings readings;
  for (std::uint32_t i = 0; i < spec.workers.size(); ++i) {
    const TokenizerCheck& check = *tokenizers[i];
    if (const std::optional<text::PromptReading> reading = check.reading()) {
      readings.present.set(reading->number());
      fleet.set_reading(WorkerId(i), reading->number());
    }
    // The smallest context of all workers, so that a prompt which is truncated to the context is read correctly at
    // least for the workers that have it.
    const std::uint32_t told = check.max_model_len();
    if (told > 0 && (readings.max_model_len == 0 || told < readings.max_model_len)) readings.max_model_len = told;
  }
  on_each_proxy([readings](Proxy& each) { each.set_readings(readings); });
}

}  // namespace kvist::gateway
