#include "kvist/gateway/followed_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "kvist/gateway/log_component.h"
#include "kvist/gateway/mode_from_environment.h"
#include "kvist/gateway/reloaded_file.h"
#include "kvist/spec/files.h"
#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

using Models = std::vector<spec::ServedModelSpec>;

Models::const_iterator find(const Models& models, const std::string& name) {
  return std::ranges::find(models, name, &spec::ServedModelSpec::model);
}

Result<void> check(spec::ServedModelSpec& model, std::set<std::string>& names) {
  if (model.workers.empty() && model.worker_groups.empty())
    return fail(ErrorCode::kInvalidArgument, "the gateway needs at least one worker");
  for (spec::UpstreamSpec& worker : model.workers) {
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

}  // namespace

Result<void> check(spec::GatewaySpec& gateway) {
  std::set<std::string> names;
  if (gateway.models.empty()) return check(gateway, names);
  for (spec::ServedModelSpec& model : gateway.models) KVIST_TRY_VOID(check(model, names));
  return {};
}

Result<spec::GatewaySpec> read_settings_file(const std::string& file) {
  KVIST_TRY(spec::GatewaySpec read, spec::load_gateway(file));
  if (auto good = check(read); !good) return std::unexpected(std::move(good).error().in(file));
  return read;
}

FollowedFile::FollowedFile(net::EventLoop& loop, ServedModels& models, std::string file, spec::GatewaySpec now)
    : loop_(&loop), models_(&models), file_(std::move(file)), in_file_(std::move(now)) {
  models_->on_gone([this] {
    if (stopped_) return;
    for (const spec::ServedModelSpec& model : std::exchange(waiting_, {})) load_when_possible(model);
  });
}

FollowedFile::~FollowedFile() {
  models_->on_gone([] {});
}

void FollowedFile::take(const Result<spec::GatewaySpec>& read) {
  if (stopped_) return;
  if (!read)
    return telemetry::log_error(log_component::kFile,
                                fmt::format("the fleet stays as it was: {}", read.error().message));
  if (loading_ > 0) {
    next_ = *read;
    return;
  }
  const std::vector<std::string> others = settings_that_differ(in_file_, *read);
  if (!others.empty())
    telemetry::log_warning(log_component::kFile, fmt::format("{}: of what has changed, these need a restart: {}", file_,
                                                             fmt::join(others, ", ")));
  carry_out(*read);
}

void FollowedFile::carry_out(const spec::GatewaySpec& next) {
  in_file_.drain_timeout = next.drain_timeout;
  models_->set_drain_timeout(next.drain_timeout);
  if (in_file_.models.empty() && next.models.empty()) return carry_out(in_file_, next);
  if (in_file_.models.empty() != next.models.empty()) return;  // a list of models and none: that needs a restart
  remove_models(next);
  waiting_.clear();
  for (const spec::ServedModelSpec& model : next.models) {
    const auto old = std::ranges::find(in_file_.models, model.model, &spec::ServedModelSpec::model);
    if (old != in_file_.models.end()) {
      carry_out(*old, model);
    } else {
      load_when_possible(model);
    }
  }
}

void FollowedFile::carry_out(spec::ServedModelSpec& before, const spec::ServedModelSpec& next) {
  ServedModel* const model = models_->find(before.model);
  if (model == nullptr) return;
  const FleetPlan plan = plan_of(before.workers, next.workers);
  const GroupPlan groups = plan_of(before.worker_groups, next.worker_groups);
  telemetry::log_info(log_component::kFile,
                      fmt::format("{} was read again: of {}, {} workers to add, {} to drain, {} to replace", file_,
                                  before.model, plan.add.size(), plan.drain.size(), plan.replace.size()));
  if (!groups.empty())
    telemetry::log_info(log_component::kFile,
                        fmt::format("of {}, {} groups of workers to add, {} to remove, {} to replace", before.model,
                                    groups.add.size(), groups.remove.size(), groups.replace.size()));
  before.workers = next.workers;
  before.worker_groups = next.worker_groups;
  if (std::exchange(before.model_aliases, next.model_aliases) != next.model_aliases) {
    telemetry::log_info(log_component::kFile, fmt::format("{} has these further names now: {}", before.model,
                                                          fmt::join(next.model_aliases, ", ")));
    models_->set_aliases(*model, next.model_aliases);
  }
  model->changes.carry_out(plan, WorkerSource::kFile);
  model->groups.carry_out(groups);
  model->services.carry_out(groups);
}

void FollowedFile::remove_models(const spec::GatewaySpec& next) {
  std::erase_if(in_file_.models, [&](const spec::ServedModelSpec& model) {
    if (find(next.models, model.model) != next.models.end()) return false;
    if (const auto removed = models_->remove(model.model, in_file_.drain_timeout); !removed)
      telemetry::log_error(log_component::kFile, removed.error().message);
    return true;
  });
}

void FollowedFile::load_when_possible(const spec::ServedModelSpec& model) {
  if (!models_->has_to_wait(model)) return load(model);
  telemetry::log_info(log_component::kFile,
                      fmt::format("{} was read again: {} is to be added when its predecessor's requests "
                                  "are over",
                                  file_, model.model));
  waiting_.push_back(model);
}

// On a thread of its own: a large tokenizer would stop all streams for a second.
void FollowedFile::load(spec::ServedModelSpec model) {
  if (!loader_) loader_ = std::make_unique<ReadingPool>(*loop_, ReadingPool::Options{.threads = 1});
  telemetry::log_info(log_component::kFile, fmt::format("{} was read again: {} is to be added", file_, model.model));
  ++loading_;
  const bool submitted = loader_->submit(
      [this, model]() -> std::function<void()> {
        spec::ServedModelSpec own = model;
        const auto mode = mode_from_environment(process_environment, own.mode);
        if (mode) own.mode = *mode;
        auto loaded = std::make_shared<Result<LoadedModel>>(load_model(std::move(own)));
        return [this, model, loaded] { on_loaded(model, std::move(*loaded)); };
      },
      0);
  if (!submitted) on_loaded(model, fail(ErrorCode::kUnavailable, "too many models are being read"));
}

void FollowedFile::on_loaded(const spec::ServedModelSpec& asked, Result<LoadedModel> loaded) {
  if (stopped_) {
    telemetry::log_info(log_component::kFile,
                        fmt::format("{} is not served: the gateway is shutting down", asked.model));
  } else if (loaded) {
    models_->add(*std::move(loaded));
    in_file_.models.push_back(asked);
  } else {
    telemetry::log_error(log_component::kFile,
                         fmt::format("{} is not served: {}", asked.model, loaded.error().message));
  }
  if (--loading_ > 0 || !next_) return;
  take(*std::exchange(next_, std::nullopt));
}

}  // namespace kvist::gateway
