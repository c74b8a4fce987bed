#include "kvist/gateway/worker_monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "kvist/gateway/log_component.h"
#include "kvist/openai/codec.h"
#include "kvist/telemetry/exposition.h"
#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

net::HttpRequest get(std::string target) {
  return {.method = "GET", .target = std::move(target), .headers = {}, .body = {}};
}

std::uint32_t to_count(double value) {
  return value >= 0 && value <= 4'294'967'295.0 ? static_cast<std::uint32_t>(value) : 0;
}

// A number that vllm:cache_config_info has as a label.
std::uint32_t count_label(const telemetry::MetricSamples& samples, std::string_view label) {
  const auto text = samples.label("vllm:cache_config_info", label).value_or("");
  std::uint32_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  return error == std::errc{} && end == text.data() + text.size() ? count : 0;
}

// vLLM's metrics. vLLM does not report its batch slots and token budget; kvist's own workers add theirs.
routing::EngineLimits vllm_limits(const telemetry::MetricSamples& samples) {
  return {.block_size = count_label(samples, "block_size"),
          .kv_blocks = count_label(samples, "num_gpu_blocks"),
          .max_batch_size = to_count(samples.sum("kvist_worker_max_batch_size").value_or(0)),
          .max_num_tokens = to_count(samples.sum("kvist_worker_max_num_tokens").value_or(0))};
}

// SGLang reports its KV memory in tokens, and the page size. It does not report its batch slots.
routing::EngineLimits sglang_limits(const telemetry::MetricSamples& samples) {
  const double page = samples.mean("sglang:page_size").value_or(0);  // one, of all data-parallel ranks
  const double tokens = samples.sum("sglang:max_total_num_tokens").value_or(0);
  return {.block_size = to_count(page), .kv_blocks = page > 0 ? to_count(tokens / page) : 0};
}

std::vector<dispatch::ServedModel> read_models(std::string_view body) {
  std::vector<dispatch::ServedModel> models;
  auto list = openai::parse_model_list(body);
  if (!list) return models;
  models.reserve(list->size());
  for (openai::ModelCard& card : *list) {
    models.push_back({.id = std::move(card.id),
                      .max_model_len = card.max_model_len,
                      .parent = std::move(card.parent),
                      .root = std::move(card.root)});
  }
  return models;
}

}  // namespace

Result<WorkerReport> read_worker_report(std::string_view page) {
  KVIST_TRY(const telemetry::MetricSamples samples, telemetry::MetricSamples::parse(page));
  const auto either = [&samples](std::string_view vllm, std::string_view sglang) {
    const auto found = samples.sum(vllm);
    return found ? *found : samples.sum(sglang).value_or(0);
  };
  // Data-parallel ranks behind one page: their requests add up, and their blocks, which vLLM has added up in the label
  // of each. So the share in use of all blocks is the mean of theirs.
  const auto vllm_usage = samples.mean("vllm:kv_cache_usage_perc");
  return WorkerReport{
      .limits = samples.sum("sglang:page_size") ? sglang_limits(samples) : vllm_limits(samples),
      .running = either("vllm:num_requests_running", "sglang:num_running_reqs"),
      .waiting = either("vllm:num_requests_waiting", "sglang:num_queue_reqs"),
      .kv_usage = vllm_usage ? *vllm_usage : samples.mean("sglang:token_usage").value_or(0),
      .process_start_s = samples.sum("process_start_time_seconds"),
      .kv_event_batches = samples.sum("kvist_worker_kv_event_batches_total"),
  };
}

WorkerMonitor::WorkerMonitor(net::EventLoop& loop, net::HttpClient& client, dispatch::Fleet& fleet, WorkerId worker,
                             std::string url, Options options, Handlers handlers)
    : client_(&client),
      fleet_(&fleet),
      worker_(worker),
      url_(std::move(url)),
      options_(options),
      handlers_(std::move(handlers)),
      timer_(loop) {}

void WorkerMonitor::start() {
  look();
}

void WorkerMonitor::doubt() {
  doubted_ = true;
  if (!looking_) wait();
}

bool WorkerMonitor::in_doubt() const {
  const dispatch::Fleet::Worker& worker = fleet_->worker(worker_);
  return doubted_ || worker.stalled || worker.health != dispatch::WorkerHealth::kHealthy;
}

bool WorkerMonitor::queues_at_unknown_slots() const {
  return report_.waiting > 0 && fleet_->views()[worker_.value()].limits.max_batch_size == 0;
}

void WorkerMonitor::look() {
  const auto& answered = fleet_->worker(worker_).answered;
  const bool alive = !in_doubt() && answered && *answered > looked_;
  looked_ = net::now();
  looking_ = true;
  well_ = false;
  if (alive) return after_health();
  check_health();
}

void WorkerMonitor::check_health() {
  models_due_ = models_due_ || doubted_;
  doubted_ = false;
  ++looks_;
  call_ = client_->fetch(url_, get("/health"), options_.timeout,
                         [this](const Result<net::HttpResponse>& answer) { on_health(answer); });
}

void WorkerMonitor::on_health(const Result<net::HttpResponse>& answer) {
  const bool good = answer && answer->status >= 200 && answer->status < 300;
  if (good) {
    well_ = true;
    handlers_.on_sign_of_life();
    return after_health();
  }
  if (!answer && answer.error().code == ErrorCode::kResourceExhausted) {
    // The worker was not asked, so this says nothing about it.
    telemetry::log_error(log_component::kFleet,
                         fmt::format("the health of {} cannot be asked for: {}", name(), answer.error().message));
    return wait();
  }
  const std::string problem =
      answer ? fmt::format("/health answered {}", answer->status) : std::string(answer.error().message);
  fleet_->on_failure(worker_, problem, net::now());
  wait();
}

bool WorkerMonitor::asks_for_models() const {
  return models_due_ || fleet_->worker(worker_).health != dispatch::WorkerHealth::kHealthy ||
         net::now() - models_seen_ >= options_.model_interval;
}

void WorkerMonitor::after_health() {
  if (asks_for_models()) return check_models();
  finish_health();
}

void WorkerMonitor::check_models() {
  call_ = client_->fetch(url_, get("/v1/models"), options_.timeout,
                         [this](const Result<net::HttpResponse>& answer) { on_models(answer); });
}

void WorkerMonitor::on_models(const Result<net::HttpResponse>& answer) {
  if (answer) {
    // Without an answer nothing new is known of its models; its next health check finds out what is wrong.
    models_due_ = false;
    models_seen_ = net::now();
    handlers_.on_sign_of_life();
    handlers_.on_models(answer->status == 200 ? read_models(answer->body) : std::vector<dispatch::ServedModel>());
  }
  finish_health();
}

void WorkerMonitor::finish_health() {
  if (well_ && fleet_->on_success(worker_, net::now())) handlers_.on_healthy();
  scrape();
}

void WorkerMonitor::scrape() {
  ++looks_;
  call_ = client_->fetch(url_, get("/metrics"), options_.timeout,
                         [this](const Result<net::HttpResponse>& answer) { on_metrics(answer); });
}

void WorkerMonitor::on_metrics(const Result<net::HttpResponse>& answer) {
  if (answer) handlers_.on_sign_of_life();
  // A worker without readable metrics is used too; only its limits stay unknown.
  const auto report = answer && answer->status == 200
                          ? read_worker_report(answer->body)
                          : Result<WorkerReport>(fail(ErrorCode::kUnavailable, "no metrics"));
  if (report) {
    take_report(*report);
  } else {
    ++failed_scrapes_;
  }
  wait();
}

void WorkerMonitor::take_report(const WorkerReport& report) {
  const bool restarted =
      report_.process_start_s && report.process_start_s && *report_.process_start_s != *report.process_start_s;
  if (restarted) {
    // The index is not cleared here, because the event stream reports the restart by itself, at the right place in its
    // order.
    ++restarts_;
    fleet_->on_restarted(worker_);
    handlers_.on_restarted();
    models_due_ = doubted_ = true;  // the new process may serve another model
    telemetry::log_warning(log_component::kFleet, fmt::format("{} was restarted", name()));
  }
  // No double of a counter is larger than 2^53.
  if (const double batches = report.kv_event_batches.value_or(-1); batches >= 0 && batches < 9e15)
    handlers_.on_kv_event_batches(static_cast<std::uint64_t>(batches));
  const bool changed = report.limits != report_.limits;
  const bool other_block_size = report.limits.block_size != report_.limits.block_size;
  report_ = report;
  fleet_->on_load_report(worker_, report.running, report.waiting);
  if (other_block_size) handlers_.on_block_size_changed();
  if (!changed) return;
  fleet_->set_limits(worker_, report.limits);
  if (block_size_mismatch()) {
    telemetry::log_error(log_component::kFleet,
                         fmt::format("{} has KV blocks of {} tokens, this gateway is configured for {}: its KV events "
                                     "are refused and it is routed to as if nothing were cached",
                                     name(), report.limits.block_size, options_.block_size));
  }
}

void WorkerMonitor::wait() {
  looking_ = false;
  const TimePoint now = net::now();
  const bool soon = in_doubt() || queues_at_unknown_slots();
  const Duration pause = soon ? std::min(options_.doubt_interval, options_.interval) : options_.interval;
  const TimePoint next = doubted_ ? std::max(now, looked_ + kLeastPause) : now + pause;
  timer_.arm(next, [this] { look(); });
}

}  // namespace kvist::gateway
