#include "kvist/simulation/simulated_gateway.h"

#include <algorithm>
#include <utility>

#include "kvist/base/random.h"
#include "kvist/kv/block_hash.h"
#include "kvist/routing/session_key.h"
#include "kvist/workload/session_name.h"

namespace kvist::simulation {
namespace {

using dispatch::Outcome;

// Of several gateways, each draws its own numbers.
std::uint64_t routing_seed(std::uint64_t seed, std::size_t number) {
  return number == 0 ? seed : mix_seed({seed, seed_part("gateway"), number});
}

bool names_blocks_like(const spec::GatewaySpec& gateway, const spec::WorkerSpec& worker) {
  return worker.model == gateway.model && worker.block_size == gateway.block_size;
}

}  // namespace

std::vector<std::string> worker_names(const std::vector<spec::WorkerSpec>& workers) {
  std::vector<std::string> names;
  names.reserve(workers.size());
  for (const spec::WorkerSpec& worker : workers) names.push_back(worker.name);
  return names;
}

bool name_blocks_alike(const spec::DeploymentSpec& deployment) {
  return std::ranges::all_of(deployment.workers, [&deployment](const spec::WorkerSpec& worker) {
    return names_blocks_like(deployment.gateway, worker);
  });
}

SimulatedGateway::SimulatedGateway(std::size_t number, const spec::SweepSpec& sweep, spec::RoutingMode mode,
                                   std::uint64_t run_seed, const DecisionWatch* watch,
                                   const tokenizer::Tokenizer& tokenizer, VirtualTime& time, Network& network,
                                   Clairvoyance& clairvoyance)
    : number_(number),
      spec_(sweep.deployment.gateway),
      run_seed_(run_seed),
      unstreamed_share_(sweep.simulation.unstreamed_share),
      watch_(watch),
      all_same_hashes_(name_blocks_alike(sweep.deployment)),
      tokenizer_(&tokenizer),
      time_(&time),
      network_(&network),
      clairvoyance_(&clairvoyance),
      fleet_(worker_names(sweep.deployment.workers), {}),
      router_({.model = spec_.model,
               .block_size = spec_.block_size,
               .workers = sweep.deployment.workers.size(),
               .mode = mode,
               .seed = routing_seed(spec_.seed, number),
               .tier_weights = spec_.tier_weights,
               .session_affinity = spec_.session_affinity,
               .objective = spec_.objective,
               .latency_prior = spec_.latency_prior,
               .working_set = spec_.hold.enabled.value_or(false),
               .recorded = watch != nullptr ? 0U : 1U,
               .forecasts = &clairvoyance}),
      dispatcher_(dispatch::Dispatcher::Options::of(spec_, false), fleet_, router_) {
  for (std::uint32_t i = 0; i < sweep.deployment.workers.size(); ++i) {
    const spec::WorkerSpec& worker = sweep.deployment.workers[i];
    same_hashes_.push_back(names_blocks_like(spec_, worker));
    fleet_.set_limits(WorkerId(i), {.block_size = worker.block_size,
                                    .kv_blocks = worker.kv_blocks,
                                    .max_batch_size = worker.max_batch_size,
                                    .max_num_tokens = worker.max_num_tokens});
    fleet_.set_events_exact(WorkerId(i), true);
    fleet_.on_success(WorkerId(i), time.now());
  }
}

AnswerHead SimulatedGateway::head_of(TurnId id, const Relayed& relayed) const {
  return {.turn = id,
          .worker = relayed.life.decision().worker,
          .predicted_cached_tokens = relayed.life.decision().predicted_cached_tokens};
}

void SimulatedGateway::on_request(TurnRequest request) {
  last_read_ = request.id;
  const TimePoint deadline = network_->arrival_of_request() + spec_.upstream_timeout;
  Prompt prompt;
  dispatch::Arrived came = admit(request, prompt);
  Held held{.request = std::move(request), .deadline = deadline, .prompt = std::move(prompt)};
  // In the order of arrival, also of those that are held and start later: it is that of the deadlines.
  if (!came.started || *came.started) deadlines_.push(deadline, last_read_);
  if (came.started) {
    if (watch_ != nullptr && *came.started) (*watch_)(router_.log().newest(0));
    return on_started(*std::move(came.started), std::move(held));
  }
  const TurnId turn = held.request.id;
  held_.emplace(came.held, std::move(held));
  held_turns_.emplace(turn, came.held);
  look_at_held_later();
  if (std::erase(gone_unread_, turn) > 0) on_client_gone(turn);
}

void SimulatedGateway::on_started(dispatch::Started ticket, Held held) {
  TurnRequest& request = held.request;
  if (!ticket) {
    network_->refusal_to_client({.turn = request.id, .error = std::move(ticket).error(), .head = {}});
    return;
  }
  Relayed& live = live_.insert(request.id, {.request = ticket->handle,
                                            .life = dispatch::RequestLife(held.deadline),
                                            .streams = streams(request.turn),
                                            .first_token = false,
                                            .turn = std::move(request.turn),
                                            .prompt = std::move(held.prompt)});
  arm_deadline();
  act(request.id, live, live.life.on_routed(ticket->decision));
  if (std::erase(gone_unread_, request.id) > 0) on_client_gone(request.id);
}

// The engine appends the answer to it: with room for that, it need not move.
std::vector<TokenId> SimulatedGateway::render(const workload::StartTurn& turn) const {
  constexpr std::size_t kHeader = 32;          // more than a message has beside its text
  constexpr std::size_t kMostAnswer = 16'384;  // whoever allows more hardly uses it
  std::size_t room = std::min<std::size_t>(turn.max_tokens, kMostAnswer) + kHeader;
  for (const text::ChatMessage& message : turn.messages) room += message.content.size() + kHeader;
  std::vector<TokenId> tokens;
  tokens.reserve(room);
  template_.render({.messages = turn.messages}, *tokenizer_, tokens);
  return tokens;
}

// Where names do, the tokens of whole blocks and the messages are forgotten at once: the memory of one prompt is the
// next one's, and a large fleet's prompts fit into a cache.
void SimulatedGateway::read(TurnRequest& request) const {
  Prompt& prompt = request.prompt.emplace();
  prompt.tokens = render(request.turn);
  const kv::BlockHash root = kv::root_hash({.model = spec_.model, .lora = "", .cache_salt = ""});
  prompt.blocks =
      std::make_shared<const std::vector<kv::BlockHash>>(kv::hash_blocks(root, prompt.tokens, spec_.block_size));
  if (!all_same_hashes_) return;
  prompt.named_tokens = static_cast<std::uint32_t>(prompt.blocks->size()) * spec_.block_size;
  prompt.tokens = {prompt.tokens.begin() + prompt.named_tokens, prompt.tokens.end()};
  request.turn.messages = {};
}

dispatch::Arrived SimulatedGateway::admit(TurnRequest& request, Prompt& prompt) {
  const TimePoint arrived = network_->arrival_of_request();
  if (!dispatcher_.has_room()) return {.started = dispatcher_.start({}, arrived)};
  clairvoyance_->on_turn(request.turn);
  if (!request.prompt) read(request);
  prompt = *std::exchange(request.prompt, {});
  return dispatcher_.start_or_hold(
      {.prompt_tokens = prompt.size(),
       .blocks = prompt.blocks,
       .session = routing::session_key(workload::session_name(run_seed_, request.turn.session_or_conversation())),
       .streams = streams(request.turn),
       .deadline = arrived + spec_.upstream_timeout},
      arrived);
}

bool SimulatedGateway::streams(const workload::StartTurn& turn) const {
  if (unstreamed_share_ == 0) return true;
  return RandomStream(mix_seed({run_seed_, seed_part("unstreamed"), turn.conversation.value()})).uniform() >=
         unstreamed_share_;
}

bool SimulatedGateway::act(TurnId id, Relayed& relayed, dispatch::LifeActions actions) {
  if (actions.asks()) clairvoyance_->on_turn(relayed.turn);
  const auto next = dispatch::next_worker(actions, dispatcher_, relayed.request, time_->now());
  if (actions.abandon) network_->abort_at_worker(relayed.life.decision().worker, id);
  if (actions.doubt) await_health_check(*actions.doubt);
  if (actions.asks()) actions = relayed.life.on_rerouted(next);
  if (actions.attempt) attempt(id, relayed);
  if (actions.answer == dispatch::LifeAnswer::kError) {
    network_->refusal_to_client({.turn = id, .error = std::move(actions.error), .head = head_of(id, relayed)});
  } else if (actions.answer == dispatch::LifeAnswer::kBreakOff) {
    network_->refusal_to_client({.turn = id, .error = std::move(actions.error), .head = {}});
  }
  if (actions.over) over(id, *actions.over);
  return actions.answer == dispatch::LifeAnswer::kPassOn;
}

// The worker would render the same messages with the same template, so the message has the tokens instead, and their
// hashes if it would compute the same.
Prompt SimulatedGateway::prompt_for(WorkerId worker, Relayed& relayed) const {
  if (all_same_hashes_) return relayed.prompt;
  Prompt prompt = std::exchange(relayed.prompt, {});
  if (prompt.size() == 0) prompt.tokens = render(relayed.turn);
  if (!same_hashes_[worker.value()]) prompt.blocks.reset();
  return prompt;
}

void SimulatedGateway::attempt(TurnId id, Relayed& relayed) {
  const WorkerId worker = relayed.life.decision().worker;
  Prompt prompt = prompt_for(worker, relayed);
  network_->request_to_worker(worker, {.id = RequestId(id.value()),
                                       .prompt = std::move(prompt.tokens),
                                       .named_tokens = prompt.named_tokens,
                                       .prompt_blocks = std::move(prompt.blocks),
                                       .max_tokens = relayed.turn.max_tokens,
                                       .seed = relayed.turn.seed,
                                       .ignore_eos = relayed.turn.ignore_eos,
                                       .cache_salt = {}});
}

void SimulatedGateway::on_refusal(Refusal refusal) {
  Relayed* const relayed = live_.find(refusal.turn);
  if (relayed == nullptr || relayed->life.decision().worker != refusal.worker) return;
  // A live worker answers 429 if its queue is full and refuses the connection if it is away; its other refusals are
  // 400.
  if (refusal.error.code == ErrorCode::kUnavailable) {
    act(refusal.turn, *relayed, relayed->life.on_lost(false, refusal.error.message, false));
    return;
  }
  const int status = refusal.error.code == ErrorCode::kResourceExhausted ? 429 : 400;
  const TurnId turn = refusal.turn;
  if (!act(turn, *relayed, relayed->life.on_status(status))) return;
  refusal.head = head_of(turn, *relayed);
  network_->refusal_to_client(std::move(refusal));
  act(turn, *relayed, relayed->life.on_ended());
}

// Pieces of abandoned answers are passed on too; the client ignores them.
void SimulatedGateway::on_step(StepMessage& step) {
  for (const Piece& piece : step.pieces) live_.prefetch(piece.turn);
  for (const Piece& piece : step.pieces) {
    if (const Relayed* const relayed = live_.find(piece.turn)) dispatcher_.prefetch(relayed->life.decision().request);
  }
  advance_run(step);
  for (const Piece& piece : step.pieces) relay(piece, step);
  if (!step.pieces.empty()) release();
}

void SimulatedGateway::advance_run(const StepMessage& step) {
  const auto at_worker = [&](TurnId turn) -> const dispatch::RequestLife* {
    const Relayed* const relayed = live_.find(turn);
    const bool seen = relayed != nullptr && relayed->streams && relayed->life.decision().worker == step.worker;
    return seen ? &relayed->life : nullptr;
  };
  for (const TurnId turn : step.left)
    if (const auto* const life = at_worker(turn)) dispatcher_.leave_run(life->decision().request);
  for (const TurnId turn : step.joined)
    if (const auto* const life = at_worker(turn)) dispatcher_.join_run(life->decision().request);
  if (step.in_run > 0) dispatcher_.on_run_step(step.worker, time_->now());
}

void SimulatedGateway::relay(const Piece& piece, StepMessage& step) {
  Relayed* const relayed = live_.find(piece.turn);
  if (relayed == nullptr) return;
  if (!relayed->life.begun()) {
    act(piece.turn, *relayed, relayed->life.on_status(200));
    relayed->life.on_begun();
    step.heads.push_back(head_of(piece.turn, *relayed));
  }
  if (relayed->streams) on_piece(piece, *relayed);
  if (!piece.is_last) return;
  on_last_piece(piece, *relayed);
  act(piece.turn, *relayed, relayed->life.on_ended());
}

void SimulatedGateway::on_piece(const Piece& piece, Relayed& relayed) {
  const routing::RequestHandle request = relayed.life.decision().request;
  if (!relayed.first_token && (piece.text_bytes > 0 || piece.is_last)) {
    relayed.first_token = true;
    dispatcher_.on_first_token(request, time_->now());
  }
  if (piece.text_bytes > 0) dispatcher_.on_progress(request, 1, time_->now());  // one chunk, for any number of tokens
}

void SimulatedGateway::on_last_piece(const Piece& piece, const Relayed& relayed) {
  const routing::RequestHandle request = relayed.life.decision().request;
  if (!relayed.streams) {
    dispatcher_.on_whole_answer(
        request,
        {.tokens = piece.completion_tokens, .prompt_tokens = piece.prompt_tokens, .cached_tokens = piece.cached_tokens},
        time_->now());
  }
  dispatcher_.on_usage(request, piece.prompt_tokens, piece.cached_tokens);
}

void SimulatedGateway::on_kv_events(WorkerId worker, const std::vector<kv::KvEvent>& events) {
  refused_kv_events_ += router_.on_kv_events(worker, events);
}

void SimulatedGateway::release() {
  std::vector<dispatch::Released> all = dispatcher_.release(time_->now());
  auto decisions =
      static_cast<std::size_t>(std::ranges::count_if(all, [](const auto& one) { return one.started.has_value(); }));
  for (dispatch::Released& released : all) {
    if (watch_ != nullptr && released.started) (*watch_)(router_.log().newest(--decisions));
    const auto held = held_.find(released.id);
    Held request = std::move(held->second);
    held_.erase(held);
    held_turns_.erase(request.request.id);
    on_started(std::move(released.started), std::move(request));
  }
}

void SimulatedGateway::look_at_held_later() {
  constexpr auto kLookPeriod = std::chrono::milliseconds(100);
  if (held_.empty() || std::exchange(looks_later_, true)) return;
  time_->schedule(time_->now() + kLookPeriod, {.subject = number_, .worker = {}, .kind = EventKind::kLookAtHeld});
}

void SimulatedGateway::on_look_at_held() {
  looks_later_ = false;
  release();
  look_at_held_later();
}

void SimulatedGateway::on_client_gone(TurnId turn) {
  if (turn > last_read_) return gone_unread_.push_back(turn);
  if (const auto held = held_turns_.find(turn); held != held_turns_.end()) {
    dispatcher_.drop(held->second, time_->now());
    held_.erase(held->second);
    held_turns_.erase(held);
    return;
  }
  if (Relayed* const relayed = live_.find(turn)) act(turn, *relayed, relayed->life.on_client_gone());
}

void SimulatedGateway::over(TurnId id, Outcome outcome) {
  dispatcher_.finish(live_.find(id)->request, outcome, time_->now());
  live_.erase(id);
}

void SimulatedGateway::arm_deadline() {
  if (armed_deadline_) return;
  armed_deadline_ = deadlines_.next([this](TurnId turn) { return is_under_way(turn); });
  if (armed_deadline_) {
    time_->schedule(*armed_deadline_, {.subject = number_, .worker = {}, .kind = EventKind::kGatewayDeadline});
  }
}

void SimulatedGateway::on_deadline() {
  armed_deadline_.reset();
  const auto is_live = [this](TurnId turn) { return is_under_way(turn); };
  while (const std::optional<TurnId> turn = deadlines_.pop_due(time_->now(), is_live)) {
    // One that is held is refused when it is looked at next, and never starts.
    if (Relayed* const relayed = live_.find(*turn))
      act(*turn, *relayed, relayed->life.on_lost(true, "the request took too long"));
  }
  arm_deadline();
}

// Health checks of a healthy worker have no effect, so only those after a failure are simulated.
void SimulatedGateway::await_health_check(WorkerId worker) {
  const auto checks = time_->now().time_since_epoch() / spec_.doubt_interval;
  time_->schedule(TimePoint(spec_.doubt_interval * (checks + 1)),
                  {.subject = number_, .worker = worker, .kind = EventKind::kHealthCheck});
}

void SimulatedGateway::on_health_check(WorkerId worker, bool well) {
  if (well) {
    fleet_.on_success(worker, time_->now());
  } else {
    fleet_.on_failure(worker, "nobody listens there", time_->now());
    await_health_check(worker);
  }
}

void SimulatedGateway::on_worker_lost(WorkerId worker) {
  std::vector<TurnId> turns;
  live_.for_each([&](TurnId turn, const Relayed& relayed) {
    if (relayed.life.decision().worker == worker) turns.push_back(turn);
  });
  for (const TurnId turn : turns) {
    Relayed& relayed = *live_.find(turn);
    act(turn, relayed, relayed.life.on_lost(false, "the connection broke"));
  }
  fleet_.on_failure(worker, "the connection broke", time_->now());
  await_health_check(worker);
}

// As worker_monitor.cc does when the process began at another time than before.
void SimulatedGateway::on_worker_back(WorkerId worker) {
  fleet_.on_restarted(worker);
  router_.on_worker_restarted(worker);
  dispatcher_.on_worker_restarted(worker, time_->now());
}

}  // namespace kvist::simulation
