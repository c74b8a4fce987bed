#include "kvist/gateway/peer_metrics.h"

#include <optional>
#include <string>
#include <utility>

#include "kvist/net/event_loop.h"

namespace kvist::gateway {
namespace {

double amount(std::uint64_t count) {
  return static_cast<double>(count);
}

void write_model(const ServedModel& model, telemetry::MetricsPage& page) {
  const peering::LoadExchange& load = model.exchange->load();
  const peering::PeerTable& table = load.peers();
  const std::string& name = model.parts.spec.model;
  if (load.way()) {
    page.gauge("kvist_gateway_peer_message_seconds", "How long a message of another gateway is on its way",
               to_seconds(*load.way()), {{"model", name}});
  }
  page.gauge("kvist_gateway_peer_unheard_requests",
             "Requests of other gateways that are expected at workers before word of them can have come",
             amount(load.unheard()), {{"model", name}});
  page.gauge("kvist_gateway_peers", "Other gateways that are heard", amount(table.size()), {{"model", name}});
  for (const peering::PeerTable::Peer& peer : table.peers()) {
    page.gauge("kvist_gateway_peer_silence_seconds", "Since the last message of another gateway",
               to_seconds(net::now() - peer.heard), {{"model", name}, {"peer", peer.name}});
    page.gauge("kvist_gateway_peer_requests", "Requests that another gateway has at workers known here",
               amount(peer.requests), {{"model", name}, {"peer", peer.name}});
    page.gauge("kvist_gateway_peer_requests_elsewhere",
               "Requests that another gateway has at workers that are not known here", amount(peer.elsewhere),
               {{"model", name}, {"peer", peer.name}});
  }
  for (std::uint32_t i = 0; i < model.parts.fleet.size(); ++i) {
    if (!model.parts.is_watched(WorkerId(i))) continue;
    page.gauge("kvist_gateway_peer_worker_requests", "Requests of all other gateways at a worker",
               amount(table.requests_at(WorkerId(i))),
               {{"model", name}, {"worker", model.parts.fleet.worker(WorkerId(i)).name}});
  }
  const peering::PeerCounters& counters = table.counters();
  page.counter("kvist_gateway_peer_messages_total", "Messages of other gateways that came", amount(counters.messages),
               {{"model", name}});
  page.counter("kvist_gateway_peer_bytes_total", "Bytes of them", amount(counters.bytes), {{"model", name}});
  page.counter("kvist_gateway_peer_lost_messages_total", "Messages of other gateways that never came",
               amount(counters.lost), {{"model", name}});
  for (const auto& [reason, count] :
       {std::pair("late", counters.late), std::pair("unreadable", counters.unreadable),
        std::pair("namesake", counters.namesakes), std::pair("too_many_gateways", counters.crowd)}) {
    page.counter("kvist_gateway_peer_unused_messages_total", "Messages of other gateways that changed nothing",
                 amount(count), {{"model", name}, {"reason", reason}});
  }
  page.counter("kvist_gateway_peer_repaired_requests_total",
               "Requests that a full state added, ended or moved on, as a message was lost", amount(counters.repaired),
               {{"model", name}});
  page.counter("kvist_gateway_peer_overflow_total", "Requests of other gateways beyond what is kept of one",
               amount(counters.overflow), {{"model", name}});
}

void write_index_parts(const ServedModel& model, telemetry::MetricsPage& page) {
  const std::string& name = model.parts.spec.model;
  const IndexExchange& index = model.exchange->index();
  page.gauge("kvist_gateway_peer_parts_wanted", "Workers of which events are lost, so that another gateway is asked",
             amount(index.taker().wanted()), {{"model", name}});
  const peering::TakenCounters& taken = index.taker().counters();
  const peering::GivenCounters& given = index.giver().counters();
  page.counter("kvist_gateway_peer_parts_taken_total", "Workers' caches that were learned from another gateway",
               amount(taken.parts), {{"model", name}});
  page.counter("kvist_gateway_peer_parts_taken_blocks_total", "Blocks of them", amount(taken.blocks),
               {{"model", name}});
  page.counter("kvist_gateway_peer_parts_taken_bytes_total", "Bytes that other gateways answered", amount(taken.bytes),
               {{"model", name}});
  for (const auto& [reason, count] : taken.failures) {
    page.counter("kvist_gateway_peer_parts_failed_total", "Attempts to learn a worker's cache that came to nothing",
                 amount(count), {{"model", name}, {"reason", reason}});
  }
  page.counter("kvist_gateway_peer_parts_given_total", "Workers' caches that were told to another gateway",
               amount(given.parts), {{"model", name}});
  page.counter("kvist_gateway_peer_parts_given_blocks_total", "Blocks of them", amount(given.blocks),
               {{"model", name}});
  page.counter("kvist_gateway_peer_parts_given_bytes_total", "Bytes of them", amount(given.bytes), {{"model", name}});
  for (std::size_t i = 0; i < peering::kPartRefusals; ++i) {
    page.counter("kvist_gateway_peer_parts_refused_total", "Requests for a worker's cache that were refused",
                 amount(given.refused[i]),
                 {{"model", name}, {"reason", std::string(to_string(static_cast<peering::PartRefusal>(i)))}});
  }
}

void write_index_parts(const ServedModel& model, JsonWriter& json) {
  const peering::PartTaker& taker = model.exchange->index().taker();
  const peering::PartGiver& giver = model.exchange->index().giver();
  json.key("index_parts").begin_object().field("wanted", taker.wanted());
  json.key("taking");
  if (const auto current = taker.current()) {
    json.begin_object().field("worker", model.parts.fleet.worker(current->worker).name);
    json.field("from", current->gateway).field("pieces", current->pieces).end_object();
  } else {
    json.null();
  }
  json.field("taken", taker.counters().parts).field("taken_blocks", taker.counters().blocks);
  json.field("last_problem", taker.last_problem());
  json.field("giving", giver.is_giving()).field("given", giver.counters().parts).end_object();
}

}  // namespace

std::string_view peers_word(const PeerLink::Report& report) {
  return report.connected ? "together" : "alone";
}

void write_peer_metrics(const PeerLink& link, const SharedDecisions& decisions, const ServedModels& models,
                        telemetry::MetricsPage& page) {
  const PeerLink::Report report = link.report();
  page.gauge("kvist_gateway_peers_connected", "1 if there is a connection to NATS, 0 if this gateway routes alone",
             report.connected ? 1 : 0);
  page.gauge("kvist_gateway_peers_share_decisions",
             "1 if modes and drains are shared, 0 without a connection or without JetStream",
             report.connected && report.table_problem.empty() ? 1 : 0);
  page.counter("kvist_gateway_peers_connections_total", "Connections to NATS that were made",
               amount(report.connections));
  page.counter("kvist_gateway_peers_sent_messages_total", "Messages to the other gateways", amount(report.sent));
  page.counter("kvist_gateway_peers_sent_bytes_total", "Bytes of them", amount(report.sent_bytes));
  page.counter("kvist_gateway_peers_unsent_messages_total", "Messages that were not sent for want of a connection",
               amount(report.unsent));
  page.counter("kvist_gateway_peers_dropped_messages_total",
               "Messages that came faster than they could be read, and were dropped", amount(report.dropped));
  page.counter("kvist_gateway_peers_followed_decisions_total",
               "Modes and holds of other gateways that were carried out here", amount(decisions.followed()));
  page.counter("kvist_gateway_peers_unreadable_decisions_total", "Rows of the shared table that could not be read",
               amount(decisions.unreadable()));
  page.counter("kvist_gateway_peers_unkept_decisions_total",
               "Decisions beyond the bound on those that are kept for models that come later",
               amount(decisions.unkept()));
  for (const ServedModel* const model : models.all())
    if (model->exchange) {
      write_model(*model, page);
      write_index_parts(*model, page);
    }
}

void write_peers(JsonWriter& json, const PeerLink& link, const ServedModels& models, TimePoint now) {
  const PeerLink::Report report = link.report();
  json.begin_object().field("name", link.name()).field("state", peers_word(report));
  json.field("problem", report.problem).field("shared_decisions_problem", report.table_problem);
  json.key("models").begin_array();
  for (const ServedModel* const model : models.all()) {
    if (!model->exchange) continue;
    const peering::LoadExchange& load = model->exchange->load();
    json.begin_object().field("model", model->parts.spec.model);
    json.rounded_field("message_ms", load.way() ? std::optional(to_milliseconds(*load.way())) : std::nullopt, 1e3);
    json.field("unheard_requests", load.unheard()).key("peers").begin_array();
    for (const peering::PeerTable::Peer& peer : load.peers().peers()) {
      json.begin_object().field("name", peer.name).field("requests", peer.requests);
      json.field("elsewhere", peer.elsewhere).field("silent_s", to_seconds(now - peer.heard)).end_object();
    }
    json.end_array();
    write_index_parts(*model, json);
    json.end_object();
  }
  json.end_array().end_object();
}

}  // namespace kvist::gateway
