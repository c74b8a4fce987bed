// The gateway in virtual time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/dispatch/dispatcher.h"
#include "kvist/dispatch/fleet.h"
#include "kvist/dispatch/request_life.h"
#include "kvist/routing/router.h"
#include "kvist/simulation/clairvoyance.h"
#include "kvist/simulation/deadlines.h"
#include "kvist/simulation/decision_watch.h"
#include "kvist/simulation/messages.h"
#include "kvist/simulation/network.h"
#include "kvist/simulation/turn_table.h"
#include "kvist/simulation/virtual_time.h"
#include "kvist/spec/deployment.h"
#include "kvist/spec/sweep.h"
#include "kvist/text/chat.h"
#include "kvist/tokenizer/tokenizer.h"

namespace kvist::simulation {

[[nodiscard]] std::vector<std::string> worker_names(const std::vector<spec::WorkerSpec>& workers);
/// Whether all workers name blocks as the gateway does. Then names take the place of tokens: in prompts on their way to
/// engines and in KV events.
[[nodiscard]] bool name_blocks_alike(const spec::DeploymentSpec& deployment);

/// Reads, routes, relays and retries like gateway/proxy.cc and gateway/proxied_request.cc: with the same fleet,
/// dispatcher, router, chat template and hashing, called in the same order. Workers are healthy from the start.
/// Invariant: a turn is in live_ exactly while the dispatcher has its request in flight. Threads: one.
class SimulatedGateway {
 public:
  /// `run_seed` is the load's and is used for session names. `clairvoyance` is what mode clairvoyant knows. `number`
  /// tells several gateways apart. Requires: the references outlive this object.
  SimulatedGateway(std::size_t number, const spec::SweepSpec& sweep, spec::RoutingMode mode, std::uint64_t run_seed,
                   const DecisionWatch* watch, const tokenizer::Tokenizer& tokenizer, VirtualTime& time,
                   Network& network, Clairvoyance& clairvoyance);

  void on_request(TurnRequest request);
  /// Makes the request's prompt. Threads: any.
  void read(TurnRequest& request) const;
  void on_client_gone(TurnId turn);
  void on_deadline();
  /// `well`: whether the worker answered.
  void on_health_check(WorkerId worker, bool well);
  /// All connections to the worker broke.
  void on_worker_lost(WorkerId worker);
  /// The worker is a new process.
  void on_worker_back(WorkerId worker);
  /// The worker answered with an error instead of a stream.
  void on_refusal(Refusal refusal);
  /// Adds what the client learns from the gateway.
  void on_step(StepMessage& step);
  /// Looks at held requests, as the live gateway does several times a second.
  void on_look_at_held();
  void on_kv_events(WorkerId worker, const std::vector<kv::KvEvent>& events);

  [[nodiscard]] bool holds() const { return !held_.empty(); }
  [[nodiscard]] bool idle() const { return live_.empty() && held_.empty(); }
  [[nodiscard]] const dispatch::Fleet& fleet() const { return fleet_; }
  [[nodiscard]] const routing::Router& router() const { return router_; }
  /// For what tells other gateways of its requests, and books theirs.
  [[nodiscard]] routing::Router& router() { return router_; }
  [[nodiscard]] const dispatch::Dispatcher& dispatcher() const { return dispatcher_; }
  [[nodiscard]] dispatch::Dispatcher& dispatcher() { return dispatcher_; }
  /// The number of KV events that the index refused.
  [[nodiscard]] std::uint64_t refused_kv_events() const { return refused_kv_events_; }

 private:
  struct Relayed {
    dispatch::DispatchHandle request;
    dispatch::RequestLife life;
    bool streams = true;
    bool first_token = false;  // the answer's first token was seen
    // For further attempts: messages, or the prompt if it has no more tokens than those behind its last whole block.
    workload::StartTurn turn;
    Prompt prompt;
  };

  /// A request that waits in the dispatcher.
  struct Held {
    TurnRequest request;
    TimePoint deadline;
    Prompt prompt;
  };

  [[nodiscard]] std::vector<TokenId> render(const workload::StartTurn& turn) const;
  [[nodiscard]] dispatch::Arrived admit(TurnRequest& request, Prompt& prompt);
  [[nodiscard]] Prompt prompt_for(WorkerId worker, Relayed& relayed) const;
  void on_started(dispatch::Started ticket, Held held);
  [[nodiscard]] bool is_under_way(TurnId turn) const { return live_.contains(turn) || held_turns_.contains(turn); }
  void release();
  void look_at_held_later();
  /// Carries out actions. Returns whether the answer under way continues to the client.
  bool act(TurnId id, Relayed& relayed, dispatch::LifeActions actions);
  void attempt(TurnId id, Relayed& relayed);
  void advance_run(const StepMessage& step);
  void relay(const Piece& piece, StepMessage& step);
  /// Whether the turn's client wants its tokens one by one.
  [[nodiscard]] bool streams(const workload::StartTurn& turn) const;
  /// What the gateway sees of an answer that goes on, and of its last piece before it ends.
  void on_piece(const Piece& piece, Relayed& relayed);
  void on_last_piece(const Piece& piece, const Relayed& relayed);
  void over(TurnId id, dispatch::Outcome outcome);
  void arm_deadline();
  void await_health_check(WorkerId worker);
  [[nodiscard]] AnswerHead head_of(TurnId id, const Relayed& relayed) const;

  std::size_t number_;
  spec::GatewaySpec spec_;
  std::uint64_t run_seed_;
  double unstreamed_share_;
  const DecisionWatch* watch_;     // may be null
  std::vector<bool> same_hashes_;  // by WorkerId: the worker names blocks as the gateway does
  bool all_same_hashes_;
  const tokenizer::Tokenizer* tokenizer_;
  text::SimpleChatTemplate template_;
  VirtualTime* time_;
  Network* network_;
  Clairvoyance* clairvoyance_;
  dispatch::Fleet fleet_;
  routing::Router router_;
  dispatch::Dispatcher dispatcher_;
  TurnTable<Relayed> live_;
  Deadlines deadlines_;
  std::optional<TimePoint> armed_deadline_;
  std::map<dispatch::HoldId, Held> held_;
  std::map<TurnId, dispatch::HoldId> held_turns_;
  bool looks_later_ = false;
  TurnId last_read_;                 // turns are read in the order of their numbers
  std::vector<TurnId> gone_unread_;  // clients that left before their request was read
  std::uint64_t refused_kv_events_ = 0;
};

}  // namespace kvist::simulation
