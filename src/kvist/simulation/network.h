// The network between load generator, gateway and workers, in which every message takes time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/engine/request.h"
#include "kvist/kv/kv_event.h"
#include "kvist/simulation/messages.h"
#include "kvist/simulation/parcels.h"
#include "kvist/simulation/virtual_time.h"
#include "kvist/spec/simulation_spec.h"

namespace kvist::simulation {

/// Sends messages, and delivers them when their event comes. Delays are constant, so messages of one direction arrive
/// in the order in which they were sent, as on a connection. Threads: one.
class Network {
 public:
  Network(VirtualTime& time, const spec::SimulationSpec& spec) : time_(&time), spec_(spec) {}

  // From the client. A request reaches the router when the gateway has read it: `gateway_time` after its arrival.
  void request_to_gateway(TurnRequest request) {
    send(spec_.client_hop + spec_.way_in + spec_.gateway_time, EventKind::kRequestAtGateway,
         requests_.put(std::move(request)));
  }
  void client_gone(TurnId turn) { send(spec_.client_hop, EventKind::kClientGoneAtGateway, turn.value()); }

  // From the gateway.
  void request_to_worker(WorkerId worker, engine::Request request) {
    const std::uint64_t parcel = work_.put(std::move(request));
    work_order_.push_back({.worker = worker, .parcel = parcel, .arrives = time_->now() + spec_.worker_hop});
    send(spec_.worker_hop, EventKind::kRequestAtWorker, parcel, worker);
  }
  void abort_at_worker(WorkerId worker, TurnId turn) {
    send(spec_.worker_hop, EventKind::kAbortAtWorker, turn.value(), worker);
  }
  /// The step that has come to the gateway goes on.
  void step_on_to_client(const Event& event) {
    send(spec_.client_hop, EventKind::kStepAtClient, event.subject, event.worker);
  }
  /// A part of it.
  void step_to_client(StepMessage& step) {
    const WorkerId worker = step.worker;
    send(spec_.client_hop, EventKind::kStepAtClient, steps_.exchange(step), worker);
  }
  void refusal_to_client(Refusal refusal) {
    send(spec_.client_hop, EventKind::kRefusalAtClient, refusals_.put(std::move(refusal)));
  }

  /// To another gateway.
  void message_to_peer(std::size_t gateway, std::shared_ptr<const std::string> message) {
    send(spec_.gateways.hop, EventKind::kPeerMessage, peers_.put({.gateway = gateway, .bytes = std::move(message)}));
  }

  // From a worker. What it gives is empty then, with the memory of an earlier message.
  void step_to_gateway(WorkerId worker, StepMessage& step) {
    send(spec_.worker_hop, EventKind::kStepAtGateway, steps_.exchange(step), worker);
  }
  void refusal_to_gateway(Refusal refusal) {
    send(spec_.worker_hop, EventKind::kRefusalAtGateway, refusals_.put(std::move(refusal)));
  }
  void worker_lost_to_gateway(WorkerId worker) { send(spec_.worker_hop, EventKind::kWorkerLostAtGateway, 0, worker); }
  void worker_back_to_gateway(WorkerId worker) { send(spec_.worker_hop, EventKind::kWorkerBackAtGateway, 0, worker); }
  void kv_events_to_gateway(WorkerId worker, std::vector<kv::KvEvent>& events) {
    send(spec_.kv_event_delay, EventKind::kKvEventsAtGateway, kv_events_.exchange(events), worker);
  }

  // For the receivers.
  [[nodiscard]] TurnRequest take_request(const Event& event) { return requests_.take(event.subject); }
  [[nodiscard]] engine::Request take_work(const Event& event) {
    work_order_.pop_front();  // requests arrive in the order in which they were sent
    return work_.take(event.subject);
  }
  /// It stays where it is until end_step().
  [[nodiscard]] StepMessage& step_of(const Event& event) { return steps_.at(event.subject); }
  void end_step(const Event& event) {
    steps_.at(event.subject).clear();
    steps_.end(event.subject);
  }
  [[nodiscard]] Refusal take_refusal(const Event& event) { return refusals_.take(event.subject); }
  [[nodiscard]] PeerMessage take_peer_message(const Event& event) { return peers_.take(event.subject); }
  /// They stay where they are until end_kv_events().
  [[nodiscard]] const std::vector<kv::KvEvent>& kv_events_of(const Event& event) const {
    return kv_events_.at(event.subject);
  }
  void end_kv_events(const Event& event) {
    kv_events_.at(event.subject).clear();
    kv_events_.end(event.subject);
  }

  /// The request of an event that is still to come.
  [[nodiscard]] TurnRequest& request_of(const Event& event) { return requests_.at(event.subject); }

  /// Calls `visit(request, arrival)` for each request that is on its way to the worker, in order.
  template <class Visit>
  void for_each_work(WorkerId worker, Visit visit) const {
    for (const Work& work : work_order_) {
      if (work.worker == worker) visit(work_.at(work.parcel), work.arrives);
    }
  }
  [[nodiscard]] const spec::SimulationSpec& spec() const { return spec_; }
  /// When the gateway received the request that reaches the router now.
  [[nodiscard]] TimePoint arrival_of_request() const { return time_->now() - spec_.gateway_time; }
  /// Messages on their way; those without content (gone, abort), and those between gateways, are not counted.
  [[nodiscard]] std::size_t in_transit() const {
    return requests_.in_transit() + work_.in_transit() + steps_.in_transit() + refusals_.in_transit() +
           kv_events_.in_transit();
  }

 private:
  struct Work {
    WorkerId worker;
    std::uint64_t parcel = 0;
    TimePoint arrives;
  };
  void send(Duration delay, EventKind kind, std::uint64_t subject, WorkerId worker = {}) {
    time_->schedule(time_->now() + delay, {.subject = subject, .worker = worker, .kind = kind});
  }

  VirtualTime* time_;
  spec::SimulationSpec spec_;
  Parcels<TurnRequest> requests_;
  Parcels<engine::Request> work_;
  std::deque<Work> work_order_;  // what is in it, by arrival
  Parcels<StepMessage> steps_;
  Parcels<Refusal> refusals_;
  Parcels<std::vector<kv::KvEvent>> kv_events_;
  Parcels<PeerMessage> peers_;
};

}  // namespace kvist::simulation
