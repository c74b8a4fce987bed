// The wire form of ext_proc's and the health service's messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/epp/ext_proc_messages.h"

namespace kvist::epp {

/// The metadata of the Gateway API Inference Extension's endpoint picker protocol: namespaces and keys.
inline constexpr std::string_view kEndpointNamespace = "envoy.lb";
inline constexpr std::string_view kEndpointKey = "x-gateway-destination-endpoint";  ///< a header field too
inline constexpr std::string_view kServedKey = "x-gateway-destination-endpoint-served";
inline constexpr std::string_view kSubsetNamespace = "envoy.lb.subset_hint";
inline constexpr std::string_view kSubsetKey = "x-gateway-destination-endpoint-subset";

/// The most header fields, and endpoints of a subset, that are read of a message.
inline constexpr std::size_t kMostFields = 1'000;
inline constexpr std::size_t kMostSubsetEndpoints = 10'000;

/// Reads a ProcessingRequest (envoy/service/ext_proc/v3/external_processor.proto). Fields that are not needed are
/// skipped. Errors: kCorrupt for what is no such message, kTooLarge beyond the bounds above.
[[nodiscard]] Result<ProcessingRequest> read_processing_request(std::string_view bytes);

// ProcessingResponses. Each answers a message about the part that it is named after.
/// Nothing is to be changed. Of a body that is sent to and fro (full duplex) see write_body_part().
[[nodiscard]] std::string write_continue(Part part);
/// The request goes to these endpoints, "address:port,address:port": in a header field, and in dynamic metadata. As the
/// answer to kRequestHeaders or, where the body is buffered, kRequestBody.
[[nodiscard]] std::string write_destination(Part part, std::string_view endpoints);
/// A part of a body, on its way through (StreamedBodyResponse).
[[nodiscard]] std::string write_body_part(Part part, std::string_view body, bool end_of_stream);
[[nodiscard]] std::string write_immediate(const ImmediateResponse& response);

/// The service that grpc.health.v1.HealthCheckRequest asks about. Errors: kCorrupt.
[[nodiscard]] Result<std::string> read_health_request(std::string_view bytes);
/// A grpc.health.v1.HealthCheckResponse: SERVING or NOT_SERVING.
[[nodiscard]] std::string write_health_response(bool serving);

}  // namespace kvist::epp
