// One HTTP request of the proxy, from its headers to the end of its answer: messages in, messages out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/epp/ext_proc_messages.h"
#include "kvist/net/http_types.h"

namespace kvist::epp {

/// How a stream ends, with gRPC's number of the status.
struct StreamEnd {
  enum class Code : std::uint8_t { kOk = 0, kInvalidArgument = 3, kFailedPrecondition = 9, kAborted = 10 };
  Code code = Code::kOk;
  std::string message = {};
};

/// The part of an answer that came with one message.
struct AnswerPart {
  struct Head {
    int status = 0;
    net::Headers headers = {};  ///< without pseudo-headers
    std::string served = {};    ///< the endpoint that it is from; empty: not said
  };
  std::optional<Head> head = {};
  std::string body = {};
  bool ended = false;
  std::optional<Error> lost = {};  ///< the proxy could not get an answer, and has made up one of its own
  bool withheld = false;           ///< the request went to no worker at all
};

/// What is to be done, in the order of the fields.
struct ExchangeActions {
  std::vector<std::string> replies = {};         ///< messages for the proxy
  std::optional<net::HttpRequest> request = {};  ///< it is whole: pick a worker for it
  std::optional<Error> refused = {};             ///< it is not taken: on_refused() is to be called
  std::optional<AnswerPart> answer = {};
  std::optional<StreamEnd> end = {};  ///< end the stream behind the replies
};

/// The endpoint picker's side of ext_proc as a state machine without gRPC, sockets and clocks. A request whose body is
/// sent to and fro (FULL_DUPLEX_STREAMED) gets the answer to its headers when its body is complete, and behind it the
/// body in parts; one whose body is buffered gets the destination with the answer to its body. Every message of the
/// answer is passed on at once, before it is looked at. Other modes of the filter, in which no worker could be picked
/// by the body or nothing be learned of the answer, end the stream with an error that says which are right. Bounds: the
/// body's; otherwise nothing grows. Threads: one.
class ProcessingExchange {
 public:
  /// How large a part of a body is at most on its way back: Envoy takes no more than 64 KiB at once.
  static constexpr std::size_t kMostPartBytes = 62'000;

  explicit ProcessingExchange(std::size_t max_body_bytes) : max_body_bytes_(max_body_bytes) {}

  /// A message of the proxy has come.
  [[nodiscard]] ExchangeActions on_message(ProcessingRequest message);
  /// Workers were picked for the request, whose body is `body`. Requires: it was given out by on_message(), and neither
  /// this nor on_refused() was called for it.
  [[nodiscard]] ExchangeActions on_picked(const std::vector<std::string>& endpoints, std::string_view body);
  /// The request is answered from here. Requires: nothing of its answer has been seen.
  [[nodiscard]] ExchangeActions on_refused(const ImmediateResponse& response);

  /// The endpoints of which one has to be picked; nothing: any.
  [[nodiscard]] const std::optional<std::vector<std::string>>& subset() const { return subset_; }
  /// Whether something of an answer has come.
  [[nodiscard]] bool answer_begun() const { return phase_ >= Phase::kAnswer; }
  /// Whether all of it has, or the request was answered from here.
  [[nodiscard]] bool is_over() const { return phase_ == Phase::kOver; }

 private:
  enum class Phase : std::uint8_t {
    kHeaders,  // nothing has come
    kBody,     // of the request
    kPicking,  // the request is whole
    kServed,   // a worker was named
    kAnswer,   // the head of the answer has come
    kOver,
  };

  [[nodiscard]] ExchangeActions on_request_headers(ProcessingRequest message);
  [[nodiscard]] ExchangeActions on_request_body(const ProcessingRequest& message);
  [[nodiscard]] ExchangeActions on_request_trailers();
  [[nodiscard]] ExchangeActions on_answer(ProcessingRequest message);
  [[nodiscard]] ExchangeActions pick();
  [[nodiscard]] ExchangeActions fail_stream(StreamEnd::Code code, std::string message);
  [[nodiscard]] ExchangeActions out_of_turn(Part part);
  [[nodiscard]] bool is_full_duplex() const { return protocol_.request_body == BodyMode::kFullDuplexStreamed; }

  std::size_t max_body_bytes_;
  Protocol protocol_;
  Phase phase_ = Phase::kHeaders;
  net::HttpRequest request_;
  std::optional<std::vector<std::string>> subset_;
  bool bodiless_ = false;  // the headers are the whole request
  bool trailers_ = false;  // the request ended with trailers
};

}  // namespace kvist::epp
