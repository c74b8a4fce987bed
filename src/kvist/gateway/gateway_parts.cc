#include "kvist/gateway/gateway_parts.h"

#include <utility>

namespace kvist::gateway {
namespace {

std::vector<std::string> names_of(const std::vector<spec::UpstreamSpec>& workers) {
  std::vector<std::string> names;
  names.reserve(workers.size());
  for (const spec::UpstreamSpec& worker : workers) names.push_back(worker.name);
  return names;
}

net::HttpClientOptions client_options(const spec::GatewaySpec& gateway) {
  net::HttpClientOptions options;
  options.connect_timeout = gateway.connect_timeout;
  return options;
}

dispatch::Dispatcher::Options dispatch_options(const spec::GatewaySpec& gateway) {
  dispatch::Dispatcher::Options options;
  options.max_in_flight = gateway.max_in_flight;
  options.max_retries = gateway.max_retries;
  return options;
}

}  // namespace

GatewayParts::GatewayParts(net::EventLoop& loop, spec::GatewaySpec gateway_spec, std::uint64_t request_id_seed,
                           std::shared_ptr<const text::ModelText> text)
    : spec(std::move(gateway_spec)),
      client(loop, client_options(spec)),
      fleet(names_of(spec.workers), {}),
      router({.model = spec.model,
              .block_size = spec.block_size,
              .workers = spec.workers.size(),
              .mode = spec.mode,
              .seed = spec.seed,
              .latency_prior = spec.latency_prior}),
      dispatcher(dispatch_options(spec), fleet, router),
      proxy(loop,
            {.model = spec.model,
             .block_size = spec.block_size,
             .upstream_timeout = spec.upstream_timeout,
             .request_id_seed = request_id_seed,
             .text = std::move(text)},
            client, dispatcher, spec.workers) {
  for (std::uint32_t i = 0; i < spec.workers.size(); ++i) {
    const spec::UpstreamLimits& limits = spec.workers[i].limits;
    fleet.configure_limits(WorkerId(i), {.kv_blocks = limits.kv_blocks,
                                         .max_batch_size = limits.max_batch_size,
                                         .max_num_tokens = limits.max_num_tokens});
    tokenizers.push_back(
        std::make_unique<TokenizerCheck>(loop, client, proxy.reader(), spec.workers[i].name, spec.workers[i].url,
                                         TokenizerCheck::Options{.timeout = spec.connect_timeout}, [this, i] {
                                           update_events_exact(WorkerId(i));
                                           update_readings();
                                         }));
    monitors.push_back(std::make_unique<WorkerMonitor>(
        loop, client, fleet, WorkerId(i), spec.workers[i].url,
        WorkerMonitor::Options{.interval = spec.health_interval,
                               .doubt_interval = spec.doubt_interval,
                               .timeout = spec.connect_timeout,
                               .block_size = spec.block_size},
        WorkerMonitor::Handlers{.on_healthy = [this, i] { tokenizers[i]->start(); },
                                .on_restarted =
                                    [this, i] {
                                      router.on_worker_restarted(WorkerId(i));
                                      proxy.on_worker_restarted(WorkerId(i));
                                      tokenizers[i]->start();
                                    },
                                .on_block_size_changed = [this, i] { update_events_exact(WorkerId(i)); }}));
  }
  proxy.on_doubt([this](WorkerId worker) { monitors[worker.value()]->doubt(); });
  feeds.resize(spec.workers.size());
}

void GatewayParts::on_events_changed(WorkerId worker) {
  update_events_exact(worker);
  monitors[worker.value()]->doubt();
}

bool GatewayParts::events_exact(WorkerId worker) const {
  const std::shared_ptr<KvEventFeed>& feed = feeds[worker.value()];
  return feed != nullptr && feed->exact() && !monitors[worker.value()]->block_size_mismatch() &&
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
    // The least of them: what a request cuts to the context is told right for those workers at least.
    const std::uint32_t told = check.max_model_len();
    if (told > 0 && (readings.max_model_len == 0 || told < readings.max_model_len)) readings.max_model_len = told;
  }
  proxy.set_readings(readings);
}

}  // namespace kvist::gateway
