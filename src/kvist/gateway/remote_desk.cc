#include "kvist/gateway/remote_desk.h"

#include <utility>

namespace kvist::gateway {
namespace {

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

}  // namespace

RemoteDesk::RemoteDesk(net::EventLoop& loop, std::shared_ptr<RoutingThread> routing)
    : loop_(&loop), routing_(std::move(routing)), self_(std::make_shared<RemoteDesk*>(this)), timer_(loop) {}

// What was told last is the end of requests: it must not be lost.
RemoteDesk::~RemoteDesk() {
  *self_ = nullptr;
  send();
}

void RemoteDesk::start(dispatch::RequestProfile profile, Started then) {
  const AskedHandle asked = asked_.insert({.started = std::move(then), .rerouted = {}});
  write_down(StartNote{.profile = std::move(profile), .asked = asked}, true);
}

void RemoteDesk::reroute(dispatch::DispatchHandle request, const dispatch::LifeActions& actions, Rerouted then) {
  const AskedHandle asked = asked_.insert({.started = {}, .rerouted = std::move(then)});
  write_down(RerouteNote{.request = request, .actions = actions, .asked = asked}, true);
}

void RemoteDesk::on_trouble(dispatch::DispatchHandle request, const dispatch::LifeActions& actions) {
  write_down(TroubleNote{.request = request, .actions = actions}, false);
}

void RemoteDesk::on_first_token(routing::RequestHandle attempt, TimePoint at) {
  write_down(FirstTokenNote{.attempt = attempt, .at = at}, false);
}

void RemoteDesk::on_progress(routing::RequestHandle attempt, std::uint64_t tokens, TimePoint at) {
  write_down(ProgressNote{.attempt = attempt, .tokens = tokens, .at = at}, false);
}

void RemoteDesk::on_whole_answer(routing::RequestHandle attempt, const routing::WholeAnswer& answer) {
  write_down(WholeAnswerNote{.attempt = attempt, .answer = answer}, false);
}

void RemoteDesk::on_usage(routing::RequestHandle attempt, std::uint64_t prompt_tokens, std::uint64_t cached_tokens) {
  write_down(UsageNote{.attempt = attempt, .prompt_tokens = prompt_tokens, .cached_tokens = cached_tokens}, false);
}

void RemoteDesk::finish(dispatch::DispatchHandle request, dispatch::Outcome outcome) {
  write_down(FinishNote{.request = request, .outcome = outcome}, false);
}

void RemoteDesk::doubt(WorkerId worker) {
  write_down(DoubtNote{.worker = worker}, false);
}

void RemoteDesk::write_down(Note note, bool urgent) {
  notes_.push_back(std::move(note));
  if (notes_.size() >= kMostNotes) return send();
  if (urgent && !std::exchange(sending_soon_, true)) {
    // At the end of this turn of the loop: requests that came together go together.
    loop_->post([self = self_] {
      if (*self != nullptr) (*self)->send();
    });
  } else if (!urgent && !std::exchange(timer_armed_, true)) {
    timer_.arm(net::now() + kBatchTime, [this] {
      timer_armed_ = false;
      send();
    });
  }
}

void RemoteDesk::send() {
  sending_soon_ = false;
  if (notes_.empty()) return;
  routing_->loop->post([routing = routing_, self = self_, loop = loop_, notes = std::exchange(notes_, {})]() mutable {
    if (routing->desk == nullptr) return;
    Answers answers = take(*routing->desk, notes);
    routing->has_room.store(routing->desk->has_room(), std::memory_order_relaxed);
    if (answers.empty()) return;
    loop->post([self = std::move(self), answers = std::move(answers)]() mutable {
      if (*self != nullptr) (*self)->give(std::move(answers));
    });
  });
}

RemoteDesk::Answers RemoteDesk::take(LocalDesk& desk, std::vector<Note>& notes) {
  Answers answers;
  const Overloaded visit{
      [&](ProgressNote& note) { desk.on_progress(note.attempt, note.tokens, note.at); },
      [&](FirstTokenNote& note) { desk.on_first_token(note.attempt, note.at); },
      [&](WholeAnswerNote& note) { desk.on_whole_answer(note.attempt, note.answer); },
      [&](UsageNote& note) { desk.on_usage(note.attempt, note.prompt_tokens, note.cached_tokens); },
      [&](FinishNote& note) { desk.finish(note.request, note.outcome); },
      [&](DoubtNote& note) { desk.doubt(note.worker); },
      [&](StartNote& note) {
        desk.start(std::move(note.profile),
                   [&](const Result<dispatch::Ticket>& ticket) { answers.started.emplace_back(note.asked, ticket); });
      },
      [&](RerouteNote& note) {
        desk.reroute(note.request, note.actions, [&](const std::optional<routing::Decision>& decision) {
          answers.rerouted.emplace_back(note.asked, decision);
        });
      },
      [&](TroubleNote& note) { desk.on_trouble(note.request, note.actions); },
  };
  for (Note& note : notes) std::visit(visit, note);
  return answers;
}

void RemoteDesk::give(Answers answers) {
  const auto take_asked = [this](AskedHandle handle) {
    Asked asked = std::move(*asked_.find(handle));
    asked_.erase(handle);
    return asked;
  };
  for (const auto& [handle, ticket] : answers.started) take_asked(handle).started(ticket);
  for (const auto& [handle, decision] : answers.rerouted) take_asked(handle).rerouted(decision);
}

}  // namespace kvist::gateway
