#include "kvist/epp/picked_request.h"

#include <fmt/format.h>

#include <utility>

#include "kvist/gateway/error_answer.h"
#include "kvist/gateway/proxy_headers.h"
#include "kvist/telemetry/log.h"

namespace kvist::epp {

/// Who is told of the answer.
struct PickedRequest::Listening {
  net::CallHandlers handlers;
};

/// The gateway's hold on the answer. The proxy reads it, however slow its client is.
class PickedRequest::Call final : public net::HttpCall {
 public:
  Call(std::weak_ptr<PickedRequest> request, std::shared_ptr<Listening> listening)
      : request_(std::move(request)), listening_(std::move(listening)) {}
  ~Call() override {
    const auto request = request_.lock();
    if (request && request->listening_ == listening_) request->listening_.reset();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void pause() override {}
  void resume() override {}
  [[nodiscard]] net::PieceAge piece_age(Bytes /*which*/) override { return {}; }
  [[nodiscard]] Duration longest_send() const override { return {}; }

 private:
  std::weak_ptr<PickedRequest> request_;
  std::shared_ptr<Listening> listening_;
};

PickedRequest::PickedRequest(Shared& shared, std::shared_ptr<MessageSink> sink)
    : shared_(&shared), sink_(std::move(sink)), exchange_(shared.max_body_bytes), timer_(*shared.loop) {
  ++shared_->counters.streams;
  ++shared_->counters.open;
}

PickedRequest::~PickedRequest() {
  --shared_->counters.open;
}

void PickedRequest::on_message(Result<ProcessingRequest> message) {
  if (closed_ || ended_) return;
  const auto self = shared_from_this();
  if (!message) {
    telemetry::log_warning("epp", message.error().message);
    ++shared_->counters.malformed;
    end({.code = StreamEnd::Code::kInvalidArgument, .message = message.error().message});
    return leave();
  }
  if (!std::exchange(begun_, true)) {
    timer_.arm(net::now() + shared_->request_timeout, [weak = weak_from_this()] {
      if (const auto late = weak.lock())
        late->respond(gateway::error_answer({ErrorCode::kDeadlineExceeded, "the request took too long to come"}));
    });
  }
  run(exchange_.on_message(*std::move(message)));
}

void PickedRequest::run(ExchangeActions actions) {
  for (std::string& reply : actions.replies) sink_->send(std::move(reply));
  if (actions.request) {
    timer_.cancel();
    if (exchange_.subset()) subset_ = {exchange_.subset()->begin(), exchange_.subset()->end()};
    const auto self = shared_from_this();
    shared_->handle(*std::move(actions.request), self, self);
  }
  if (actions.refused) respond(gateway::error_answer(*actions.refused));
  if (actions.answer) deliver(*std::move(actions.answer));
  if (!actions.end) return;
  const bool failed = actions.end->code != StreamEnd::Code::kOk;
  if (failed) {
    telemetry::log_warning("epp", actions.end->message);
    ++shared_->counters.malformed;
  }
  end(*std::move(actions.end));
  if (failed) leave();
}

template <class Tell>
void PickedRequest::tell(Tell tell) {
  // The handler may end the call, and with it the listening.
  if (const auto listening = listening_) tell(listening->handlers);
}

void PickedRequest::deliver(AnswerPart part) {
  if (part.withheld) return leave();
  if (part.lost) {
    tell([&](const net::CallHandlers& to) { to.on_error(*part.lost, false); });
    if (!exchange_.is_over()) respond(gateway::error_answer(*part.lost));
    return;
  }
  if (part.head) {
    if (!part.head->served.empty() && part.head->served != first_ && on_served_) {
      ++shared_->counters.moved;
      on_served_(part.head->served);
    }
    tell([&](const net::CallHandlers& to) { to.on_head(part.head->status, std::move(part.head->headers)); });
  }
  if (!part.body.empty()) tell([&](const net::CallHandlers& to) { to.on_body(part.body, net::now()); });
  if (!part.ended) return;
  answer_ended_ = true;
  timer_.cancel();
  const auto gone = std::exchange(on_gone_, nullptr);  // what has ended cannot leave; kept, as it may hold the request
  tell([&](const net::CallHandlers& to) { to.on_end({}); });
  end({});
}

void PickedRequest::leave() {
  timer_.cancel();
  if (const auto gone = std::exchange(on_gone_, nullptr)) gone();
}

void PickedRequest::on_closed() {
  closed_ = true;
  const auto self = shared_from_this();
  if (begun_ && !answer_ended_ && !ended_) ++shared_->counters.unended;
  leave();
  end({});
}

void PickedRequest::end(StreamEnd how) {
  if (std::exchange(ended_, true)) return;
  timer_.cancel();
  sink_->end(std::move(how));
}

void PickedRequest::respond(net::HttpResponse response) {
  if (closed_ || ended_ || answer_ended_) return;
  if (exchange_.answer_begun()) return abort();
  ++shared_->counters.refused;
  ImmediateResponse immediate{.status = response.status, .body = std::move(response.body)};
  for (const auto& [name, value] : response.headers.fields()) immediate.headers.emplace_back(name, value);
  run(exchange_.on_refused(immediate));
}

void PickedRequest::abort() {
  if (closed_ || ended_) return;
  ++shared_->counters.broken_off;
  end({.code = StreamEnd::Code::kAborted, .message = "the answer does not go on"});
}

void PickedRequest::on_client_gone(std::function<void()> handler) {
  if (!closed_) on_gone_ = std::move(handler);
}

bool PickedRequest::may_use(std::string_view endpoint) const {
  return !exchange_.subset() || subset_.contains(std::string(endpoint));
}

void PickedRequest::on_served_by(std::function<void(std::string_view)> handler) {
  on_served_ = std::move(handler);
}

std::unique_ptr<net::HttpCall> PickedRequest::carry(std::span<const std::string> endpoints,
                                                    std::shared_ptr<const net::HttpRequest> request, Duration timeout,
                                                    net::CallHandlers handlers) {
  auto listening = std::make_shared<Listening>(std::move(handlers));
  listening_ = listening;
  timer_.arm(net::now() + timeout, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_deadline();
  });
  if (std::exchange(first_, endpoints.front()).empty()) {
    ++shared_->counters.picked;
    run(exchange_.on_picked({endpoints.begin(), endpoints.end()}, request->body));
  }
  return std::make_unique<Call>(weak_from_this(), std::move(listening));
}

void PickedRequest::on_deadline() {
  const auto self = shared_from_this();
  tell([](const net::CallHandlers& to) {
    to.on_error({ErrorCode::kDeadlineExceeded, "the proxy gave no end of the answer in time"}, false);
  });
}

}  // namespace kvist::epp
