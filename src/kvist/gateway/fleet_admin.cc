#include "kvist/gateway/fleet_admin.h"

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/json_writer.h"
#include "kvist/base/yaml.h"
#include "kvist/gateway/error_answer.h"
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

// Files are for who writes the gateway's file. Who may only change the fleet must not have the gateway send what is in
// them to a server of his.
Result<spec::UpstreamSpec> read_new_worker(const GatewayParts& parts, const net::HttpRequest& request) {
  KVIST_TRY(const YamlNode body, read_body(request, R"({"name":"gpu-7","url":"http://10.0.0.7:8000"})"));
  for (const std::string_view key : {"api_key_file", "tls"}) {
    if (const auto given = body.get(key)) {
      return std::unexpected(given->error(
          fmt::format("{} can be given in the gateway's file only; without it, a worker has the fleet's", key)));
    }
  }
  KVIST_TRY_VOID(body.require("name"));
  KVIST_TRY(spec::UpstreamSpec worker, spec::read_upstream(body, ".", ""));
  if (worker.url.starts_with("https://")) worker.tls = parts.spec.worker_tls;
  return worker;
}

struct Named {
  std::string name;
  Duration timeout{};
};

Result<Named> read_named(const net::HttpRequest& request, Duration usual_timeout, bool takes_timeout) {
  KVIST_TRY(const YamlNode body, read_body(request, R"({"name":"gpu-7"})"));
  Named named{.name = {}, .timeout = usual_timeout};
  KVIST_TRY(const YamlNode name, body.require("name"));
  KVIST_TRY(named.name, name.as_string());
  if (takes_timeout) {
    if (const auto timeout = body.get("timeout")) {
      KVIST_TRY(named.timeout, timeout->as_duration());
      constexpr Duration kMost = std::chrono::hours(24);
      if (named.timeout < Duration(0) || named.timeout > kMost)
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

void write_place(JsonWriter& json, const GatewayParts& parts, const FleetChanges& changes, WorkerId id) {
  json.begin_object().field("place", id.value());
  write_upstream(json, parts.upstreams[id.value()], changes.source(id));
  json.field("admission", to_string(parts.places.place(id).state)).field("state", worker_state(parts, id));
  json.field("in_flight", parts.router.loads().load(id).requests).end_object();
}

net::HttpResponse list(const GatewayParts& parts, const FleetChanges& changes) {
  JsonWriter json;
  json.begin_object().field("places", parts.places.size()).field("vacant", parts.places.vacant());
  json.key("workers").begin_array();
  for (std::uint32_t i = 0; i < parts.fleet.size(); ++i)
    if (!parts.fleet.is_vacant(WorkerId(i))) write_place(json, parts, changes, WorkerId(i));
  json.end_array().key("held").begin_array();
  for (const dispatch::WorkerHolds::Entry& held : changes.holds().entries())
    json.begin_object().field("name", held.name).field("as", to_string(held.hold)).end_object();
  json.end_array().key("waiting").begin_array();
  for (const FleetChanges::Waiting& waiting : changes.waiting()) {
    json.begin_object();
    write_upstream(json, waiting.worker, waiting.source);
    json.field("problem", waiting.problem).end_object();
  }
  json.end_array().end_object();
  return json_answer(json.take());
}

net::HttpResponse one(const GatewayParts& parts, const FleetChanges& changes, std::string_view name, int status) {
  JsonWriter json;
  if (const std::optional<WorkerId> id = parts.places.find(name)) {
    write_place(json, parts, changes, *id);
  } else {  // it had no requests, and is gone
    json.begin_object().field("name", name).field("admission", "vacant").end_object();
  }
  net::HttpResponse answer = json_answer(json.take());
  answer.status = status;
  return answer;
}

}  // namespace

void add_fleet_paths(net::PathTable& paths, GatewayParts& parts, FleetChanges& changes) {
  constexpr int kCreated = 201;
  constexpr int kAccepted = 202;
  constexpr int kOk = 200;
  paths.answer("GET", "/admin/workers", [&](const net::HttpRequest&) { return list(parts, changes); });
  paths.on("POST", "/admin/workers",
           [&](const net::HttpRequest& request, const std::shared_ptr<net::HttpExchange>& exchange) {
             const auto worker = read_new_worker(parts, request);
             if (!worker) return exchange->respond(error_answer(worker.error()));
             changes.add(*worker, [&, exchange, name = worker->name](const Result<void>& added) {
               exchange->respond(added ? one(parts, changes, name, kCreated) : error_answer(added.error()));
             });
           });
  using Change = std::function<Result<void>(const Named&)>;
  const auto on = [&](const std::string& path, int status, bool takes_timeout, Change change) {
    paths.answer("POST", path, [&, status, takes_timeout, change = std::move(change)](const net::HttpRequest& request) {
      const auto named = read_named(request, parts.spec.drain_timeout, takes_timeout);
      if (!named) return error_answer(named.error());
      const auto done = change(*named);
      return done ? one(parts, changes, named->name, status) : error_answer(done.error());
    });
  };
  on("/admin/workers/cordon", kOk, false, [&](const Named& named) { return changes.cordon(named.name); });
  on("/admin/workers/uncordon", kOk, false, [&](const Named& named) { return changes.uncordon(named.name); });
  on("/admin/workers/drain", kAccepted, true,
     [&](const Named& named) { return changes.drain(named.name, named.timeout); });
  on("/admin/workers/remove", kAccepted, false, [&](const Named& named) { return changes.remove(named.name); });
}

}  // namespace kvist::gateway
