#include "kvist/gateway/routing_channel.h"

#include <utility>

#include "kvist/net/event_loop.h"

namespace kvist::gateway {

void LocalChannel::start(dispatch::RequestProfile profile, Left left, Started then) {
  dispatch::Arrived came = dispatcher_->start_or_hold(profile, net::now());
  look_at_room();
  if (came.started) return then(*came.started);
  held_of_.emplace(left, came.held);
  held_.emplace(came.held, Held{.left = std::move(left), .then = std::move(then)});
}

void LocalChannel::on_left(const Left& left) {
  const auto held = held_of_.find(left);
  if (held == held_of_.end() || !dispatcher_->drop(held->second, net::now())) return;
  answer({{.id = held->second,
           .started = std::unexpected(
               dispatch::Refusal(Error{ErrorCode::kCancelled, "the client has left while the request waited"},
                                 dispatch::Outcome::kClientGone))}});
}

void LocalChannel::release() {
  if (!held_.empty()) answer(dispatcher_->release(net::now()));
}

void LocalChannel::refuse_held(const Error& error) {
  answer(dispatcher_->refuse_held(error, net::now()));
}

void LocalChannel::answer(std::vector<dispatch::Released> released) {
  look_at_room();
  for (const dispatch::Released& one : released) {
    const Held held = std::move(held_.extract(one.id).mapped());
    held_of_.erase(held.left);
    held.then(one.started);
  }
}

void LocalChannel::look_at_room() {
  const bool has_room = dispatcher_->has_room();
  if (std::exchange(had_room_, has_room) != has_room) room_(has_room);
}

void LocalChannel::reroute(dispatch::DispatchHandle request, const dispatch::LifeActions& actions, Rerouted then) {
  then(dispatch::next_worker(actions, *dispatcher_, request, net::now()));
}

void LocalChannel::on_trouble(dispatch::DispatchHandle request, const dispatch::LifeActions& actions) {
  (void)dispatch::next_worker(actions, *dispatcher_, request, net::now());
}

void LocalChannel::on_first_token(routing::RequestHandle attempt, TimePoint at) {
  dispatcher_->on_first_token(attempt, at);
  release();
}

void LocalChannel::on_progress(routing::RequestHandle attempt, std::uint64_t tokens, TimePoint at) {
  dispatcher_->on_progress(attempt, tokens, at);
}

void LocalChannel::on_whole_answer(routing::RequestHandle attempt, const routing::WholeAnswer& answer) {
  dispatcher_->on_whole_answer(attempt, answer, net::now());
  release();
}

void LocalChannel::on_usage(routing::RequestHandle attempt, std::uint64_t prompt_tokens, std::uint64_t cached_tokens) {
  dispatcher_->on_usage(attempt, prompt_tokens, cached_tokens);
}

void LocalChannel::on_reading(dispatch::DispatchHandle request, bool reads) {
  if (reads) {
    dispatcher_->on_resumed(request, net::now());
  } else {
    dispatcher_->on_paused(request);
  }
}

void LocalChannel::finish(dispatch::DispatchHandle request, dispatch::Outcome outcome) {
  dispatcher_->finish(request, outcome, net::now());
  look_at_room();
  release();
}

}  // namespace kvist::gateway
