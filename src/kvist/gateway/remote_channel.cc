#include "kvist/gateway/remote_channel.h"

#include <utility>

namespace kvist::gateway {
namespace {

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

}  // namespace

RemoteChannel::RemoteChannel(net::EventLoop& loop, std::shared_ptr<RoutingThread> routing)
    : loop_(&loop), routing_(std::move(routing)), self_(std::make_shared<RemoteChannel*>(this)), timer_(loop) {}

// The last messages report the ends of requests and must not be lost.
RemoteChannel::~RemoteChannel() {
  *self_ = nullptr;
  send();
}

void RemoteChannel::start(dispatch::RequestProfile profile, Left left, Started then) {
  const AskedHandle asked = asked_.insert({.started = std::move(then), .rerouted = {}});
  enqueue(StartMessage{.profile = std::move(profile), .left = std::move(left), .asked = asked}, true);
}

void RemoteChannel::on_left(const Left& left) {
  enqueue(LeftMessage{.left = left}, false);
}

void RemoteChannel::reroute(dispatch::DispatchHandle request, const dispatch::LifeActions& actions, Rerouted then) {
  const AskedHandle asked = asked_.insert({.started = {}, .rerouted = std::move(then)});
  enqueue(RerouteMessage{.request = request, .actions = actions, .asked = asked}, true);
}

void RemoteChannel::on_trouble(dispatch::DispatchHandle request, const dispatch::LifeActions& actions) {
  enqueue(TroubleMessage{.request = request, .actions = actions}, false);
}

void RemoteChannel::on_first_token(routing::RequestHandle attempt, TimePoint at) {
  enqueue(FirstTokenMessage{.attempt = attempt, .at = at}, false);
}

void RemoteChannel::on_progress(routing::RequestHandle attempt, std::uint64_t tokens, TimePoint at) {
  enqueue(ProgressMessage{.attempt = attempt, .tokens = tokens, .at = at}, false);
}

void RemoteChannel::on_whole_answer(routing::RequestHandle attempt, const routing::WholeAnswer& answer) {
  enqueue(WholeAnswerMessage{.attempt = attempt, .answer = answer}, false);
}

void RemoteChannel::on_usage(routing::RequestHandle attempt, std::uint64_t prompt_tokens, std::uint64_t cached_tokens) {
  enqueue(UsageMessage{.attempt = attempt, .prompt_tokens = prompt_tokens, .cached_tokens = cached_tokens}, false);
}

void RemoteChannel::on_reading(dispatch::DispatchHandle request, bool reads) {
  enqueue(ReadingMessage{.request = request, .reads = reads}, false);
}

void RemoteChannel::finish(dispatch::DispatchHandle request, dispatch::Outcome outcome) {
  // At once: the client may send its next request now, which must not be refused because of this one.
  enqueue(FinishMessage{.request = request, .outcome = outcome}, true);
}

void RemoteChannel::doubt(WorkerId worker) {
  enqueue(DoubtMessage{.worker = worker}, false);
}

void RemoteChannel::enqueue(Message message, bool urgent) {
  messages_.push_back(std::move(message));
  if (messages_.size() >= kMaxMessages) return send();
  if (urgent && !std::exchange(sending_soon_, true)) {
    // Posted to the end of this turn of the loop, so that requests that arrived together are sent together.
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

void RemoteChannel::send() {
  sending_soon_ = false;
  if (messages_.empty()) return;
  routing_->loop->post(
      [routing = routing_, self = self_, loop = loop_, messages = std::exchange(messages_, {})]() mutable {
        if (routing->channel == nullptr) return;
        const auto give_later = [self, loop](AskedHandle asked, const dispatch::Started& ticket) {
          Answers one;
          one.started.emplace_back(asked, ticket);
          loop->post([self, one = std::move(one)]() mutable {
            if (*self != nullptr) (*self)->give(std::move(one));
          });
        };
        Answers answers = take(*routing->channel, messages, give_later);
        if (answers.empty()) return;
        loop->post([self = std::move(self), answers = std::move(answers)]() mutable {
          if (*self != nullptr) (*self)->give(std::move(answers));
        });
      });
}

RemoteChannel::Answers RemoteChannel::take(LocalChannel& channel, std::vector<Message>& messages,
                                           const SendsLater& later) {
  Answers answers;
  // Null once the batch is carried out. What is held until then outlives it.
  const auto batch = std::make_shared<Answers*>(&answers);
  const Overloaded visit{
      [&](ProgressMessage& message) { channel.on_progress(message.attempt, message.tokens, message.at); },
      [&](FirstTokenMessage& message) { channel.on_first_token(message.attempt, message.at); },
      [&](WholeAnswerMessage& message) { channel.on_whole_answer(message.attempt, message.answer); },
      [&](UsageMessage& message) { channel.on_usage(message.attempt, message.prompt_tokens, message.cached_tokens); },
      [&](ReadingMessage& message) { channel.on_reading(message.request, message.reads); },
      [&](FinishMessage& message) { channel.finish(message.request, message.outcome); },
      [&](DoubtMessage& message) { channel.doubt(message.worker); },
      [&](StartMessage& message) {
        channel.start(std::move(message.profile), std::move(message.left),
                      [batch, later, asked = message.asked](const dispatch::Started& ticket) {
                        if (*batch == nullptr) return later(asked, ticket);
                        (*batch)->started.emplace_back(asked, ticket);
                      });
      },
      [&](LeftMessage& message) { channel.on_left(message.left); },
      [&](RerouteMessage& message) {
        channel.reroute(message.request, message.actions, [&](const std::optional<routing::Decision>& decision) {
          answers.rerouted.emplace_back(message.asked, decision);
        });
      },
      [&](TroubleMessage& message) { channel.on_trouble(message.request, message.actions); },
  };
  for (Message& message : messages) std::visit(visit, message);
  *batch = nullptr;
  return answers;
}

void RemoteChannel::give(Answers answers) {
  const auto take_asked = [this](AskedHandle handle) {
    Asked asked = std::move(*asked_.find(handle));
    asked_.erase(handle);
    return asked;
  };
  for (const auto& [handle, ticket] : answers.started) take_asked(handle).started(ticket);
  for (const auto& [handle, decision] : answers.rerouted) take_asked(handle).rerouted(decision);
}

}  // namespace kvist::gateway
