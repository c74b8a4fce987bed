#include "kvist/gateway/model_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/base/random.h"
#include "kvist/gateway/log_component.h"
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

dispatch::WorkerPlaces places_of(const spec::ServedModelSpec& model) {
  dispatch::WorkerPlaces places(spec::worker_places(model));
  for (const spec::UpstreamSpec& worker : model.workers) {
    const auto place = places.add(worker.name, net::now());
    KVIST_CHECK(place.has_value(), "there are places for all workers, whose names differ");
  }
  return places;
}

std::vector<spec::UpstreamSpec> upstreams_of(const spec::ServedModelSpec& model) {
  std::vector<spec::UpstreamSpec> upstreams = model.workers;
  upstreams.resize(spec::worker_places(model));
  return upstreams;
}

/// Gateways of a group have the same settings: with the same seed they would draw the same workers.
std::uint64_t routing_seed(std::uint64_t seed, const SharedParts& gateway) {
  return gateway.peers ? mix_seed({seed, seed_part(gateway.peers->name())}) : seed;
}

std::string first_names(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;
  const auto shown = std::span(names).first(std::min(names.size(), kMost));
  return fmt::format("{}{}", fmt::join(shown, ", "), names.size() > kMost ? ", ..." : "");
}

void log_models(const dispatch::ModelWatch& models, WorkerId id, const std::string& name) {
  const dispatch::ModelWatch::Worker& worker = models.worker(id);
  if (!worker.adapters.empty())
    telemetry::log_info(log_component::kFleet, fmt::format("{} has {} adapters: {}", name, worker.adapters.size(),
                                                           first_names(worker.adapters)));
  if (worker.match == dispatch::ModelMatch::kOther) {
    telemetry::log_error(
        log_component::kFleet,
        fmt::format("{} serves {}, not {}: {}", name, worker.served, models.model(),
                    models.is_usable(id) ? "as no worker is known to serve that, requests go there anyway"
                                         : "it gets no requests"));
  } else if (worker.max_model_len != 0 && worker.max_model_len < models.longest_context()) {
    telemetry::log_warning(log_component::kFleet,
                           fmt::format("{} has a context of {} tokens, others have {}: longer prompts go to those",
                                       name, worker.max_model_len, models.longest_context()));
  } else if (worker.changes > 1 && worker.match == dispatch::ModelMatch::kSame) {
    telemetry::log_info(log_component::kFleet, fmt::format("{} serves {} again, with a context of {} tokens", name,
                                                           worker.served, worker.max_model_len));
  }
}

}  // namespace

ModelParts::ModelParts(SharedParts& gateway, ModelId id, spec::ServedModelSpec model_spec,
                       std::shared_ptr<const text::ModelText> text, std::unique_ptr<RecordWriter> recording)
    : shared(&gateway),
      model_id(id),
      spec(std::move(model_spec)),
      places(places_of(spec)),
      upstreams(upstreams_of(spec)),
      recorder(std::move(recording)),
      fleet(names_of(spec.workers), {}, places.size()),
      models(spec.model, places.size()),
      router({.model = spec.model,
              .block_size = spec.block_size,
              .workers = places.size(),
              .mode = spec.mode,
              .seed = routing_seed(spec.seed, gateway),
              .tier_weights = spec.tier_weights,
              .session_affinity = spec.session_affinity,
              .objective = spec.objective,
              .latency_prior = spec.latency_prior,
              .working_set = spec.hold.enabled.value_or(true),
              .sample_key = random_seed(),
              .make_gate = KvEvents::make_gate(gateway.spec.threads > 1)}),
      dispatcher(dispatch::Dispatcher::Options::of(spec, true), fleet, router),
      reader(spec.model, spec.block_size, std::move(text)),
      channel(dispatcher),
      proxy(*gateway.home->loop, proxy_options(random_seed()), gateway.client, channel, reader, upstreams),
      routing(std::make_shared<RoutingThread>()),
      tokenizers(places.size()),
      monitors(places.size()),
      events(*gateway.home->loop, router, places.size(), gateway.spec.threads > 1) {
  proxy.set_readings(readings());
  routing->loop = gateway.home->loop;
  routing->channel = &channel;
  for (std::uint32_t i = 0; i < spec.workers.size(); ++i) watch(WorkerId(i));
  channel.on_doubt([this](WorkerId worker) { doubt(worker); });
  channel.on_room([this](bool has_room) { routing->has_room.store(has_room, std::memory_order_relaxed); });
  events.on_exact_changed([this](WorkerId worker) { on_events_changed(worker); });
}

void ModelParts::configure_limits(WorkerId id) {
  const spec::UpstreamLimits& limits = upstreams[id.value()].limits;
  // The block size that a worker reports says nothing about a configured number of blocks.
  fleet.configure_limits(id, {.block_size = limits.kv_blocks != 0 ? spec.block_size : 0,
                              .kv_blocks = limits.kv_blocks,
                              .max_batch_size = limits.max_batch_size,
                              .max_num_tokens = limits.max_num_tokens});
}

void ModelParts::watch(WorkerId id) {
  const std::uint32_t i = id.value();
  const spec::UpstreamSpec& upstream = upstreams[i];
  configure_limits(id);
  net::EventLoop& loop = *routing->loop;
  tokenizers[i] =
      std::make_unique<TokenizerCheck>(loop, shared->client, reader, upstream.name, upstream.url,
                                       TokenizerCheck::Options{.timeout = shared->spec.connect_timeout}, [this, id] {
                                         update_events_exact(id);
                                         update_readings();
                                       });
  monitors[i] = std::make_unique<WorkerMonitor>(
      loop, shared->client, fleet, id, upstream.url,
      WorkerMonitor::Options{.interval = spec.health_interval,
                             .doubt_interval = spec.doubt_interval,
                             .model_interval = spec.model_interval,
                             .timeout = shared->spec.connect_timeout,
                             .block_size = spec.block_size},
      WorkerMonitor::Handlers{
          .on_healthy = [this, i] { tokenizers[i]->start(); },
          .on_restarted =
              [this, id] {
                router.on_worker_restarted(id);
                events.on_worker_restarted(id);
                dispatcher.on_worker_restarted(id, net::now());
                on_each_proxy([id](Proxy& each) { each.on_worker_restarted(id); });
                tokenizers[id.value()]->start();
              },
          .on_block_size_changed = [this, id] { update_events_exact(id); },
          .on_sign_of_life = [this, id] { dispatcher.on_sign_of_life(id, net::now()); },
          .on_kv_event_batches = [this, id](std::uint64_t batches) { events.on_published(id, batches); },
          .on_models = [this, id](const std::vector<dispatch::ServedModel>& list) { on_models(id, list); }});
}

void ModelParts::bring_in(WorkerId id, const spec::UpstreamSpec& worker, const net::ServerSettings& settings) {
  upstreams[id.value()] = worker;
  fleet.occupy(id, worker.name);
  dispatcher.on_worker_added(id);
  // The proxies are told before any decision can name the worker.
  on_each_proxy([id, worker, settings](Proxy& each) { each.set_worker(id, worker, settings); });
  events.add(id, worker);
  watch(id);
  update_models();
  monitors[id.value()]->start();
}

void ModelParts::turn_out(WorkerId id) {
  dispatcher.on_worker_removed(id, net::now());
  monitors[id.value()].reset();
  tokenizers[id.value()].reset();
  on_each_proxy([id](Proxy& each) { each.on_worker_removed(id); });
}

void ModelParts::clear(WorkerId id) {
  // The loops come first, because what they report may give the thread of the KV events something to do.
  after_all_proxies([this, id] {
    events.forget(id, [this, id] {
      dispatcher.forget(id);
      models.forget(id);
      const std::string url = std::exchange(upstreams[id.value()], {}).url;
      if (std::ranges::find(upstreams, url, &spec::UpstreamSpec::url) == upstreams.end())
        on_each_proxy([url](Proxy& each) { each.forget_server(url); });
      places.vacate(id, net::now());
      // The one that is gone may have been the only one to serve the model, or the one with the smallest context.
      update_models();
      update_readings();
    });
  });
}

void ModelParts::doubt(WorkerId worker) {
  if (const auto& monitor = monitors[worker.value()]) monitor->doubt();
}

ModelParts::~ModelParts() {
  routing->channel = nullptr;
}

Proxy::Options ModelParts::proxy_options(std::uint64_t seed) const {
  return {.upstream_timeout = spec.upstream_timeout,
          .stream_idle_timeout = spec.stream_idle_timeout,
          .stream_keepalive = spec.stream_keepalive,
          .send_priority = spec.send_priority,
          .request_id_seed = seed,
          .recorder = recorder.get(),
          .pass_client_keys = shared->spec.pass_client_keys,
          .migration = spec.migration,
          .reporter = shared->reporter.get()};
}

IoLoop::Model ModelParts::for_loop() const {
  Proxy::Options options = proxy_options(random_seed());
  options.reading_threads = 1;
  return {.routing = routing, .reader = &reader, .proxy = options, .workers = upstreams, .readings = readings()};
}

void ModelParts::on_each_proxy(const std::function<void(Proxy&)>& work) {
  work(proxy);
  for (const auto& io : shared->io_loops) io->run(model_id, work);
}

void ModelParts::after_all_proxies(std::function<void()> then) {
  gather_reports([then = std::move(then)](const Reports&) { then(); });
}

void ModelParts::gather_reports(std::function<void(const Reports&)> then) {
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
  gathering->open = shared->io_loops.size() + 1;
  gathering->then = std::move(then);
  events.report([gathering](const KvEventsReport& report) {
    gathering->reports.events = report;
    gathering->take_one();
  });
  for (const auto& io : shared->io_loops) {
    io->run(model_id, [gathering, home = routing](Proxy& each) {
      home->loop->post([gathering, home, report = each.report()] {
        if (home->channel == nullptr) return;
        gathering->reports.proxies.add(report);
        gathering->take_one();
      });
    });
  }
}

void ModelParts::on_events_changed(WorkerId worker) {
  update_events_exact(worker);
  doubt(worker);
}

void ModelParts::on_models(WorkerId worker, const std::vector<dispatch::ServedModel>& list) {
  if (!models.on_list(worker, list)) return;
  update_models();
  log_models(models, worker, fleet.worker(worker).name);
}

// What one worker serves can change whether the others may be used.
void ModelParts::update_models() {
  for (std::uint32_t i = 0; i < fleet.size(); ++i)
    fleet.set_model(WorkerId(i), models.is_usable(WorkerId(i)), models.worker(WorkerId(i)).max_model_len);
  for (std::uint32_t i = 0; i < fleet.size(); ++i) fleet.set_adapters(WorkerId(i), models.worker(WorkerId(i)).adapters);
  std::vector<std::string> all = models.adapters();
  if (adapters ? *adapters == all : all.empty()) return;
  adapters = std::make_shared<const std::vector<std::string>>(std::move(all));
  update_readings();
  on_adapters_changed();
}

bool ModelParts::events_exact(WorkerId worker) const {
  if (!monitors[worker.value()]) return false;
  return events.exact(worker) && !monitors[worker.value()]->block_size_mismatch() &&
         tokenizers[worker.value()]->match() != TokenizerMatch::kDifferent;
}

FleetReadings ModelParts::readings() const {
  FleetReadings readings;
  for (const auto& check : tokenizers) {
    if (!check) continue;
    if (const std::optional<text::PromptReading> reading = check->reading()) readings.present.set(reading->number());
    // The smallest context of all workers, so that a prompt which is truncated to the context is read correctly at
    // least for the workers that have it.
    const std::uint32_t told = check->max_model_len();
    if (told > 0 && (readings.max_model_len == 0 || told < readings.max_model_len)) readings.max_model_len = told;
  }
  readings.adapters = adapters;
  if (!spec.model_aliases.empty())
    readings.aliases = std::make_shared<const std::vector<std::string>>(spec.model_aliases);
  return readings;
}

void ModelParts::update_readings() {
  for (std::uint32_t i = 0; i < fleet.size(); ++i) {
    if (!tokenizers[i]) continue;
    if (const auto reading = tokenizers[i]->reading()) fleet.set_reading(WorkerId(i), reading->number());
  }
  on_each_proxy([now = readings()](Proxy& each) { each.set_readings(now); });
}

void ModelParts::set_aliases(std::vector<std::string> names) {
  spec.model_aliases = std::move(names);
  update_readings();
}

}  // namespace kvist::gateway
