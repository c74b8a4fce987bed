#include "kvist/gateway/served_models.h"

#include <fmt/format.h>

#include <algorithm>

#include "kvist/base/error_context.h"
#include "kvist/gateway/log_component.h"
#include "kvist/gateway/record_writer.h"
#include "kvist/net/time_of_day.h"
#include "kvist/telemetry/log.h"
#include "kvist/text/model_text.h"

namespace kvist::gateway {
namespace {

constexpr auto kLeavingPeriod = std::chrono::milliseconds(50);

/// Whether the model has no worker, no request and no pending work any more.
bool is_empty(const ServedModel& model) {
  const ModelParts& parts = model.parts;
  return parts.places.vacant() == parts.places.size() && parts.dispatcher.under_way() == 0 &&
         !model.groups.is_asking() && !model.changes.is_reading();
}

}  // namespace

Result<LoadedModel> load_model(spec::ServedModelSpec spec) {
  LoadedModel loaded{.spec = std::move(spec)};
  if (!loaded.spec.tokenizer.empty()) {
    KVIST_TRY(text::ModelText model, within("tokenizer", text::ModelText::load(loaded.spec.tokenizer)));
    loaded.text = std::make_shared<const text::ModelText>(std::move(model));
  }
  if (!loaded.spec.record.file.empty()) {
    KVIST_TRY(loaded.recorder,
              RecordWriter::open({.record = loaded.spec.record,
                                  .recording = new_recording(loaded.spec, net::now(), net::unix_seconds())}));
  }
  return loaded;
}

ServedModels::ServedModels(net::EventLoop& loop, SharedParts& shared)
    : loop_(&loop), shared_(&shared), leaving_timer_(loop) {}

ServedModels::~ServedModels() {
  shared_->home->open = false;
  for (const auto& model : models_) model->parts.routing->channel = nullptr;
  shared_->io_loops.clear();
  shared_->models.clear();
}

ServedModel& ServedModels::emplace(LoadedModel loaded) {
  models_.push_back(std::make_unique<ServedModel>(*loop_, *shared_, ModelId(next_++), std::move(loaded)));
  ServedModel& model = *models_.back();
  shared_->models.push_back(&model.parts);
  model.parts.on_adapters_changed = [this] { publish_names(); };
  shared_->door.open(model.parts.model_id, model.parts.proxy);
  return model;
}

void ServedModels::make(LoadedModel loaded) {
  (void)emplace(std::move(loaded));
}

Result<void> ServedModels::start() {
  started_ = true;
  for (const auto& model : models_) {
    for (const auto& io : shared_->io_loops) io->add_model(model->parts.model_id, model->parts.for_loop());
  }
  publish_names();
  for (const auto& model : models_) {
    KVIST_TRY_VOID(model->parts.events.connect(model->parts.spec.workers));
    for (const auto& monitor : model->parts.monitors)
      if (monitor) monitor->start();
    model->watch.start();
    model->changes.watch_files();
    model->groups.start();
    model->services.start();
  }
  return {};
}

void ServedModels::add(LoadedModel loaded) {
  // Its workers come one by one, as others may still have their names or addresses.
  const std::vector<spec::UpstreamSpec> workers = loaded.spec.workers;
  loaded.spec.max_workers = static_cast<std::uint32_t>(spec::worker_places(loaded.spec));
  loaded.spec.workers.clear();
  ServedModel& model = emplace(std::move(loaded));
  const auto before = std::ranges::find(gone_, model.parts.spec.model, &Gone::model);
  if (before != gone_.end()) {
    model.changes.take_over(std::move(before->holds));
    gone_.erase(before);
  }
  for (const auto& io : shared_->io_loops) io->add_model(model.parts.model_id, model.parts.for_loop());
  if (const auto connected = model.parts.events.connect({}); !connected)
    telemetry::log_error(log_component::kModels, connected.error().message);
  for (const spec::UpstreamSpec& worker : workers) model.changes.add_when_possible(worker, WorkerSource::kFile);
  model.watch.start();
  model.changes.watch_files();
  model.groups.start();
  model.services.start();
  publish_names();
  telemetry::log_info(log_component::kModels,
                      fmt::format("{} is served now: {} workers, routing mode {}", model.parts.spec.model,
                                  workers.size(), to_string(model.parts.router.mode())));
}

Result<void> ServedModels::remove(std::string_view name, Duration timeout) {
  ServedModel* const model = find(name);
  if (model == nullptr || model->parts.spec.model != name) return std::unexpected(unknown(name));
  model->leaves = true;
  model->groups.stop();
  model->services.stop();
  publish_names();
  telemetry::log_info(log_component::kModels, fmt::format("{} is not served any more: its {} requests have {} s", name,
                                                          model->parts.dispatcher.under_way(), to_seconds(timeout)));
  model->changes.drain_all(timeout);
  look_whether_left();
  return {};
}

void ServedModels::set_aliases(ServedModel& model, std::vector<std::string> names) {
  model.parts.set_aliases(std::move(names));
  publish_names();
}

void ServedModels::publish_names() {
  if (!started_) return;
  std::vector<ModelNames::Model> names;
  for (const auto& model : models_) {
    if (model->leaves) continue;
    const ModelParts& parts = model->parts;
    names.push_back({.id = parts.model_id,
                     .name = parts.spec.model,
                     .aliases = parts.spec.model_aliases,
                     .adapters = parts.adapters ? *parts.adapters : std::vector<std::string>()});
  }
  names_ = std::make_shared<const ModelNames>(std::move(names));
  shared_->door.set_names(names_);
  for (const auto& io : shared_->io_loops) io->set_names(names_);
}

void ServedModels::look_whether_left() {
  bool any = false;
  for (const auto& model : models_) {
    if (!model->leaves || model->closing) continue;
    any = true;
    if (!model->asked && is_empty(*model)) ask_whether_left(*model);
  }
  if (any) leaving_timer_.arm(net::now() + kLeavingPeriod, [this] { look_whether_left(); });
}

// A loop that answers this has known for a while that the model's names are gone.
void ServedModels::ask_whether_left(ServedModel& model) {
  model.asked = true;
  model.parts.gather_reports([this, &model](const ModelParts::Reports& reports) {
    model.asked = false;
    if (reports.proxies.under_way == 0 && is_empty(model)) close(model);
  });
}

// First the loops give up their proxies; then whatever is on its way to the model comes, and then it can go.
void ServedModels::close(ServedModel& model) {
  model.closing = true;
  shared_->door.close(model.parts.model_id);
  const auto open = std::make_shared<std::size_t>(shared_->io_loops.size() + 1);
  const auto one_closed = [this, &model, open] {
    if (--*open > 0) return;
    model.parts.events.report([this, id = model.parts.model_id](const KvEventsReport&) {
      // Posted, because the model must not be destroyed within a call of its own.
      loop_->post([this, id, home = shared_->home] {
        if (home->open) forget(id);
      });
    });
  };
  for (const auto& io : shared_->io_loops) io->remove_model(model.parts.model_id, one_closed);
  one_closed();
}

void ServedModels::forget(ModelId id) {
  ServedModel* const model = of(id);
  if (model == nullptr) return;
  telemetry::log_info(log_component::kModels, fmt::format("{} is gone", model->parts.spec.model));
  if (!model->changes.holds().entries().empty()) {
    if (gone_.size() >= kMostGone) gone_.erase(gone_.begin());
    gone_.push_back({.model = model->parts.spec.model, .holds = model->changes.holds()});
  }
  std::erase(shared_->models, &model->parts);
  std::erase_if(models_, [model](const auto& each) { return each.get() == model; });
  on_gone_();
}

bool ServedModels::has_to_wait(const spec::ServedModelSpec& model) const {
  return std::ranges::any_of(models_, [&](const auto& other) {
    const spec::ServedModelSpec& spec = other->parts.spec;
    const bool same_record = !model.record.file.empty() && spec.record.file == model.record.file;
    return other->leaves && (spec.model == model.model || same_record);
  });
}

ServedModel* ServedModels::of(ModelId id) const {
  const auto found = std::ranges::find_if(models_, [id](const auto& model) { return model->parts.model_id == id; });
  return found == models_.end() ? nullptr : found->get();
}

std::vector<ServedModel*> ServedModels::all() const {
  std::vector<ServedModel*> all;
  for (const auto& model : models_)
    if (!model->closing) all.push_back(model.get());
  return all;
}

ServedModel* ServedModels::find(std::string_view name) const {
  for (const auto& model : models_) {
    if (model->leaves) continue;
    const spec::ServedModelSpec& spec = model->parts.spec;
    if (spec.model == name || std::ranges::find(spec.model_aliases, name) != spec.model_aliases.end())
      return model.get();
  }
  return nullptr;
}

ServedModel* ServedModels::find_worker(std::string_view name) const {
  const auto in_place =
      std::ranges::find_if(models_, [name](const auto& model) { return model->parts.places.find(name).has_value(); });
  if (in_place != models_.end()) return in_place->get();
  const auto held = std::ranges::find_if(
      models_, [name](const auto& model) { return model->changes.holds().find(name).has_value(); });
  return held == models_.end() ? nullptr : held->get();
}

ServedModel* ServedModels::only() const {
  const auto id = names_->only();
  return id ? of(*id) : nullptr;
}

Error ServedModels::unknown(std::string_view name) const {
  const auto found = names_->find(name.empty() ? std::nullopt : std::optional(std::string(name)));
  return found ? Error{ErrorCode::kNotFound, fmt::format("{} is not a model's own name", name)} : found.error();
}

bool ServedModels::any_available() const {
  return std::ranges::any_of(models_, [](const auto& model) { return model->parts.fleet.any_available(); });
}

std::size_t ServedModels::in_flight() const {
  std::size_t sum = 0;
  for (const auto& model : models_) sum += model->parts.dispatcher.in_flight();
  return sum;
}

std::size_t ServedModels::under_way() const {
  std::size_t sum = 0;
  for (const auto& model : models_) sum += model->parts.dispatcher.under_way();
  return sum;
}

struct ServedModels::Gathering {
  std::vector<std::pair<ModelId, ModelParts::Reports>> models;
  std::map<int, std::uint64_t> refused;
  net::HttpServerReport listeners;
  std::size_t open = 0;
  std::function<void(const Reports&)> then;

  void take_one(const ServedModels& owner) {
    if (--open > 0) return;
    Reports reports{.models = {}, .refused = std::move(refused), .listeners = listeners};
    for (auto& [id, report] : models) {
      ServedModel* const model = owner.of(id);  // null: gone while the others were being asked
      if (model != nullptr) reports.models.emplace_back(model, std::move(report));
    }
    then(reports);
  }
};

void ServedModels::gather_reports(std::function<void(const Reports&)> then) {
  const auto gathering = std::make_shared<Gathering>();
  const std::vector<ServedModel*> asked = all();
  for (const ServedModel* const model : asked)
    gathering->models.emplace_back(model->parts.model_id, ModelParts::Reports{});
  gathering->refused = shared_->door.refused();
  gathering->open = asked.size() + shared_->io_loops.size();
  gathering->then = std::move(then);
  if (gathering->open == 0) return gathering->then({});
  for (const auto& io : shared_->io_loops) {
    io->run([this, gathering, home = shared_->home](const ModelDoor& door, const net::HttpServer& listener) {
      home->loop->post([this, gathering, home, refused = door.refused(), report = listener.report()] {
        if (!home->open) return;
        gathering->listeners += report;
        for (const auto& [status, count] : refused) gathering->refused[status] += count;
        gathering->take_one(*this);
      });
    });
  }
  for (std::size_t i = 0; i < asked.size(); ++i) {
    asked[i]->parts.gather_reports([this, gathering, i](const ModelParts::Reports& reports) {
      gathering->models[i].second = reports;
      gathering->take_one(*this);
    });
  }
}

}  // namespace kvist::gateway
