#include "kvist/gateway/routing_desk.h"

#include "kvist/net/event_loop.h"

namespace kvist::gateway {

void LocalDesk::start(dispatch::RequestProfile profile, Started then) {
  then(dispatcher_->start(profile, net::now()));
}

void LocalDesk::reroute(dispatch::DispatchHandle request, const dispatch::LifeActions& actions, Rerouted then) {
  then(dispatch::next_worker(actions, *dispatcher_, request, net::now()));
}

void LocalDesk::on_trouble(dispatch::DispatchHandle request, const dispatch::LifeActions& actions) {
  (void)dispatch::next_worker(actions, *dispatcher_, request, net::now());
}

void LocalDesk::on_first_token(routing::RequestHandle attempt, TimePoint at) {
  dispatcher_->on_first_token(attempt, at);
}

void LocalDesk::on_progress(routing::RequestHandle attempt, std::uint64_t tokens, TimePoint at) {
  dispatcher_->on_progress(attempt, tokens, at);
}

void LocalDesk::on_whole_answer(routing::RequestHandle attempt, const routing::WholeAnswer& answer) {
  dispatcher_->on_whole_answer(attempt, answer, net::now());
}

void LocalDesk::on_usage(routing::RequestHandle attempt, std::uint64_t prompt_tokens, std::uint64_t cached_tokens) {
  dispatcher_->on_usage(attempt, prompt_tokens, cached_tokens);
}

void LocalDesk::finish(dispatch::DispatchHandle request, dispatch::Outcome outcome) {
  dispatcher_->finish(request, outcome, net::now());
}

}  // namespace kvist::gateway
