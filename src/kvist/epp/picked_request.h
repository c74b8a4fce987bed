// Connects one stream of ext_proc messages to the gateway.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>

#include "kvist/epp/message_stream.h"
#include "kvist/epp/processing_exchange.h"
#include "kvist/gateway/carrier.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_server.h"

namespace kvist::epp {

/// What all streams have counted.
struct PickerCounters {
  std::uint64_t streams = 0;     ///< that were begun
  std::uint64_t picked = 0;      ///< for which a worker was named
  std::uint64_t refused = 0;     ///< that were answered with an ImmediateResponse
  std::uint64_t malformed = 0;   ///< that were ended because of what they sent or how the filter is set up
  std::uint64_t broken_off = 0;  ///< that were ended within an answer
  std::uint64_t unended = 0;     ///< that the proxy ended before the answer's end
  std::uint64_t moved = 0;       ///< that were served by another worker than the first that was named
  std::size_t open = 0;          ///< now
};

/// To the gateway it is the client (HttpExchange) and the way to the worker (Carrier) in one. What the gateway writes
/// of a worker's answer is dropped, because the proxy has it already; what it answers by itself becomes an
/// ImmediateResponse, or, behind the beginning of an answer, a broken stream. Threads: the loop's.
class PickedRequest final : public net::HttpExchange,
                            public gateway::Carrier,
                            public MessageReceiver,
                            public std::enable_shared_from_this<PickedRequest> {
 public:
  /// What the gateway does with a request: gateway::Service::handle().
  using Handle = std::function<void(net::HttpRequest, const std::shared_ptr<net::HttpExchange>&,
                                    const std::shared_ptr<gateway::Carrier>&)>;
  /// What all streams have in common. Requires: it outlives them.
  struct Shared {
    net::EventLoop* loop = nullptr;
    Handle handle;
    std::size_t max_body_bytes = 0;
    Duration request_timeout{};  ///< from the first message to the last of the request
    std::size_t fallbacks = 0;
    PickerCounters counters = {};
  };

  PickedRequest(Shared& shared, std::shared_ptr<MessageSink> sink);
  ~PickedRequest() override;
  PickedRequest(const PickedRequest&) = delete;
  PickedRequest& operator=(const PickedRequest&) = delete;

  // MessageReceiver.
  void on_message(Result<ProcessingRequest> message) override;
  void on_closed() override;

  // HttpExchange.
  void respond(net::HttpResponse response) override;
  void begin_stream(int /*status*/, net::Headers /*headers*/) override {}
  void write(std::string_view /*data*/) override {}
  void end_stream() override {}
  void abort() override;
  [[nodiscard]] std::size_t unsent_bytes() const override { return 0; }
  void on_drained(std::size_t /*low_water*/, std::function<void()> /*handler*/) override {}
  void on_client_gone(std::function<void()> handler) override;
  [[nodiscard]] bool client_gone() const override { return closed_; }

  // Carrier.
  [[nodiscard]] bool may_use(std::string_view endpoint) const override;
  [[nodiscard]] std::size_t fallbacks() const override { return shared_->fallbacks; }
  void on_served_by(std::function<void(std::string_view endpoint)> handler) override;
  [[nodiscard]] std::unique_ptr<net::HttpCall> carry(std::span<const std::string> endpoints,
                                                     std::shared_ptr<const net::HttpRequest> request, Duration timeout,
                                                     net::CallHandlers handlers) override;

 private:
  class Call;
  struct Listening;

  void run(ExchangeActions actions);
  void deliver(AnswerPart part);
  /// Calls `tell` with the handlers of the present call, if there is one.
  template <class Tell>
  void tell(Tell tell);
  void leave();
  void on_deadline();
  void end(StreamEnd how);

  Shared* shared_;
  std::shared_ptr<MessageSink> sink_;
  ProcessingExchange exchange_;
  net::Timer timer_;  // of the request, and then of the call
  std::unordered_set<std::string> subset_;
  std::function<void()> on_gone_;
  std::function<void(std::string_view)> on_served_;
  std::shared_ptr<Listening> listening_;  // to the present call; null: nobody does
  std::string first_;                     // the endpoint that was named first
  bool begun_ = false;                    // a message has come
  bool answer_ended_ = false;
  bool closed_ = false;  // the proxy has left
  bool ended_ = false;   // by this side
};

}  // namespace kvist::epp
