#include "kvist/gateway/fleet_admin.h"

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/base/json_writer.h"
#include "kvist/base/yaml.h"
#include "kvist/gateway/admin.h"
#include "kvist/gateway/error_answer.h"
#include "kvist/gateway/shared_decisions.h"
#include "kvist/gateway/worker_state.h"

namespace kvist::gateway {
namespace {

constexpr std::size_t kMostBodyBytes = 16U << 10;

// JSON is YAML, so the configuration's reader can read these bodies, with its bounds and its error messages.
Result<YamlNode> read_body(const net::HttpRequest& request, std::string_view example) {
  if (request.body.size() > kMostBodyBytes)
    return fail(ErrorCode::kTooLarge, fmt::format("body: expected at most {} bytes", kMostBodyBytes));
  KVIST_TRY(YamlNode document, YamlNode::parse(request.body, "body"));
  if (!document.is_map())
    return fail(ErrorCode::kInvalidArgument, fmt::format("body: expected an object like {}", example));
  return document;
}

struct NewWorker {
  ServedModel* model = nullptr;
  spec::UpstreamSpec worker;
};

// Only the author of the gateway's file may name files. Somebody who may only change the fleet must not be able to have
// the gateway send their contents to a server of his.
Result<NewWorker> read_new_worker(const ServedModels& models, const net::HttpRequest& request) {
  KVIST_TRY(const YamlNode body, read_body(request, R"({"name":"gpu-7","url":"http://10.0.0.7:8000"})"));
  for (const std::string_view key : {"api_key_file", "tls"}) {
    if (const auto given = body.get(key)) {
      return std::unexpected(given->error(
          fmt::format("{} can be given in the gateway's file only; without it, a worker has the fleet's", key)));
    }
  }
  KVIST_TRY_VOID(body.require("name"));
  std::string name;
  if (const auto model = body.get("model")) {
    KVIST_TRY(name, model->as_string());
  }
  NewWorker read;
  KVIST_TRY(read.worker, spec::read_upstream(body, ".", ""));
  KVIST_TRY(read.model, model_meant(models, name));
  if (read.worker.url.starts_with("https://")) read.worker.tls = read.model->parts.spec.worker_tls;
  return read;
}

struct Named {
  std::string name;
  std::optional<Duration> timeout = {};
};

Result<Named> read_named(const net::HttpRequest& request, bool takes_timeout) {
  KVIST_TRY(const YamlNode body, read_body(request, R"({"name":"gpu-7"})"));
  Named named;
  KVIST_TRY(const YamlNode name, body.require("name"));
  KVIST_TRY(named.name, name.as_string());
  if (takes_timeout) {
    if (const auto timeout = body.get("timeout")) {
      KVIST_TRY(named.timeout, timeout->as_duration());
      if (*named.timeout < Duration(0) || *named.timeout > WorkerDecision::kMostTimeout)
        return std::unexpected(timeout->error("expected 0 s to 24 h"));
    }
  }
  KVIST_TRY_VOID(body.finish());
  return named;
}

void write_upstream(JsonWriter& json, const spec::UpstreamSpec& worker, WorkerSource source) {
  json.field("name", worker.name).field("url", worker.url);
  json.field("kv_events", worker.kv_events).field("kv_replay", worker.kv_replay);
  json.field("source", to_string(source));
}

void write_place(JsonWriter& json, const ServedModel& model, WorkerId id) {
  const ModelParts& parts = model.parts;
  json.begin_object().field("place", id.value());
  write_upstream(json, parts.upstreams[id.value()], model.changes.source(id));
  if (model.changes.is_keyless(id)) {
    json.field("fleet_key", "withheld").field("fleet_key_problem", kWithheldBecause);
  }
  json.field("admission", to_string(parts.places.place(id).state)).field("state", worker_state(parts, id));
  json.field("in_flight", parts.router.loads().load(id).requests).field("model", parts.spec.model).end_object();
}

/// Writes how current the clusters' lists of the model's workers are.
void write_discovery(JsonWriter& json, const ServedModel& model, TimePoint now) {
  for (const DiscoveryReport& report : model.services.reports()) {
    json.begin_object().field("group", report.group).field("source", to_string(WorkerSource::kKubernetes));
    json.field("service", report.service).field("model", model.parts.spec.model);
    json.field("state", to_string(report.state)).field("workers", report.workers);
    if (report.stale_since) json.field("stale_s", to_seconds(now - *report.stale_since));
    json.field("problem", report.problem).end_object();
  }
}

net::HttpResponse list(const SharedParts& shared, const ServedModels& models) {
  const std::vector<ServedModel*> all = models.all();
  JsonWriter json;
  json.begin_object();
  if (shared.spec.models.empty() && all.size() == 1) {
    const dispatch::WorkerPlaces& places = all.front()->parts.places;
    json.field("places", places.size()).field("vacant", places.vacant());
  } else {
    json.key("models").begin_array();
    for (const ServedModel* const model : all) {
      const dispatch::WorkerPlaces& places = model->parts.places;
      json.begin_object().field("model", model->parts.spec.model).field("leaving", model->leaves);
      json.field("places", places.size()).field("vacant", places.vacant()).end_object();
    }
    json.end_array();
  }
  json.key("workers").begin_array();
  for (const ServedModel* const model : all) {
    for (std::uint32_t i = 0; i < model->parts.fleet.size(); ++i)
      if (!model->parts.fleet.is_vacant(WorkerId(i))) write_place(json, *model, WorkerId(i));
  }
  json.end_array().key("held").begin_array();
  for (const ServedModel* const model : all) {
    for (const dispatch::WorkerHolds::Entry& held : model->changes.holds().entries()) {
      json.begin_object().field("name", held.name).field("as", to_string(held.hold));
      json.field("model", model->parts.spec.model).end_object();
    }
  }
  json.end_array().key("waiting").begin_array();
  for (const ServedModel* const model : all) {
    for (const FleetChanges::Waiting& waiting : model->changes.waiting()) {
      json.begin_object();
      write_upstream(json, waiting.worker, waiting.source);
      json.field("model", model->parts.spec.model).field("problem", waiting.problem).end_object();
    }
  }
  json.end_array().key("discovery").begin_array();
  for (const ServedModel* const model : all) write_discovery(json, *model, net::now());
  json.end_array().end_object();
  return json_answer(json.take());
}

net::HttpResponse one(const ServedModels& models, std::string_view name, int status) {
  JsonWriter json;
  const ServedModel* const model = models.find_worker(name);
  const auto place = model != nullptr ? model->parts.places.find(name) : std::nullopt;
  if (place) {
    write_place(json, *model, *place);
  } else {  // it had no requests, and is gone
    json.begin_object().field("name", name).field("admission", "vacant").end_object();
  }
  net::HttpResponse answer = json_answer(json.take());
  answer.status = status;
  return answer;
}

Result<void> uncordon(ServedModel& model, const std::string& name) {
  if (!model.leaves) return model.changes.uncordon(name);
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("name: the model of \"{}\", \"{}\", is not served any more", name, model.parts.spec.model));
}

/// The other gateways are to do the same.
void tell(const SharedParts& shared, const ServedModel& model, WorkerDecision decision) {
  if (shared.decisions != nullptr) shared.decisions->tell_hold(model.parts.spec.model, std::move(decision));
}

}  // namespace

void add_fleet_paths(net::PathTable& paths, const SharedParts& shared, const ServedModels& models) {
  constexpr int kCreated = 201;
  constexpr int kAccepted = 202;
  constexpr int kOk = 200;
  paths.answer("GET", "/admin/workers", [&](const net::HttpRequest&) { return list(shared, models); });
  paths.on("POST", "/admin/workers",
           [&](const net::HttpRequest& request, const std::shared_ptr<net::HttpExchange>& exchange) {
             const auto read = read_new_worker(models, request);
             if (!read) return exchange->respond(error_answer(read.error()));
             read->model->changes.add(read->worker, [&, exchange, name = read->worker.name](const Result<void>& added) {
               if (const ServedModel* const model = models.find_worker(name); added && model != nullptr)
                 tell(shared, *model, {.worker = name});
               exchange->respond(added ? one(models, name, kCreated) : error_answer(added.error()));
             });
           });
  using Change = std::function<Result<void>(ServedModel&, const Named&)>;
  const auto on = [&](const std::string& path, int status, bool takes_timeout, SharedHold hold, Change change) {
    paths.answer(
        "POST", path, [&, status, takes_timeout, hold, change = std::move(change)](const net::HttpRequest& request) {
          const auto named = read_named(request, takes_timeout);
          if (!named) return error_answer(named.error());
          ServedModel* const model = models.find_worker(named->name);
          if (model == nullptr)
            return error_answer({ErrorCode::kNotFound, fmt::format("name: there is no worker \"{}\"", named->name)});
          const auto done = change(*model, *named);
          if (done) tell(shared, *model, {.worker = named->name, .hold = hold, .timeout = named->timeout});
          return done ? one(models, named->name, status) : error_answer(done.error());
        });
  };
  on("/admin/workers/cordon", kOk, false, SharedHold::kCordoned,
     [](ServedModel& model, const Named& named) { return model.changes.cordon(named.name); });
  on("/admin/workers/uncordon", kOk, false, SharedHold::kFree,
     [](ServedModel& model, const Named& named) { return uncordon(model, named.name); });
  on("/admin/workers/drain", kAccepted, true, SharedHold::kDrained,
     [](ServedModel& model, const Named& named) { return model.changes.drain(named.name, named.timeout); });
  on("/admin/workers/remove", kAccepted, false, SharedHold::kRemoved,
     [](ServedModel& model, const Named& named) { return model.changes.remove(named.name); });
}

}  // namespace kvist::gateway
