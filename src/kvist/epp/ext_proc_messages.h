// Envoy's ext_proc messages as values: what of them the endpoint picker protocol needs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/net/http_types.h"

namespace kvist::epp {

/// Which part of the HTTP request or its answer a message is about.
enum class Part : std::uint8_t {
  kRequestHeaders,
  kResponseHeaders,
  kRequestBody,
  kResponseBody,
  kRequestTrailers,
  kResponseTrailers,
};
[[nodiscard]] std::string_view to_string(Part part);

/// How the proxy sends a body (ProcessingMode.BodySendMode), with the published numbers.
enum class BodyMode : std::uint8_t {
  kNone = 0,
  kStreamed = 1,
  kBuffered = 2,
  kBufferedPartial = 3,
  kFullDuplexStreamed = 4,
  kGrpc = 5,
};
[[nodiscard]] std::string_view to_string(BodyMode mode);

/// How the filter is configured; in the first message of a stream.
struct Protocol {
  BodyMode request_body = BodyMode::kFullDuplexStreamed;
  BodyMode response_body = BodyMode::kFullDuplexStreamed;
};

/// A message of the proxy (ProcessingRequest).
struct ProcessingRequest {
  Part part = Part::kRequestHeaders;
  net::Headers headers = {};   ///< of k*Headers, pseudo-headers (":path") among them
  std::string body = {};       ///< of k*Body: a part of it
  bool end_of_stream = false;  ///< nothing of this request, or answer, follows
  bool observes_only = false;  ///< the filter does not heed answers
  std::optional<Protocol> protocol = {};
  /// Endpoints of which one has to be picked: envoy.lb.subset_hint, x-gateway-destination-endpoint-subset.
  std::optional<std::vector<std::string>> subset = {};
  /// The endpoint by which the request was served: envoy.lb, x-gateway-destination-endpoint-served.
  std::string served = {};
  /// Why the answer is what it is: the attribute response.code_details; empty: not said.
  std::string code_details = {};
};

/// Header fields of a request to be set, in place of those of the same name.
using HeaderFields = std::vector<std::pair<std::string, std::string>>;

/// An answer in place of a worker's (ImmediateResponse).
struct ImmediateResponse {
  int status = 503;
  HeaderFields headers = {};
  std::string body = {};
};

}  // namespace kvist::epp
