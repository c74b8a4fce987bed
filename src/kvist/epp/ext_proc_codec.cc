#include "kvist/epp/ext_proc_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "kvist/epp/wire_reader.h"
#include "kvist/epp/wire_writer.h"

namespace kvist::epp {
namespace {

// Field numbers of envoy.service.ext_proc.v3, in the order of its messages.
namespace processing_request {
constexpr std::array kParts = {2U, 3U, 4U, 5U, 6U, 7U};  // by Part
constexpr std::uint32_t kMetadata = 8;
constexpr std::uint32_t kAttributes = 9;
constexpr std::uint32_t kObservability = 10;
constexpr std::uint32_t kProtocol = 11;
}  // namespace processing_request
namespace processing_response {
constexpr std::array kParts = {1U, 2U, 3U, 4U, 5U, 6U};  // by Part
constexpr std::uint32_t kImmediate = 7;
constexpr std::uint32_t kDynamicMetadata = 8;
}  // namespace processing_response
namespace common_response {
constexpr std::uint32_t kHeaderMutation = 2;
constexpr std::uint32_t kBodyMutation = 3;
constexpr std::uint32_t kClearRouteCache = 5;
}  // namespace common_response
constexpr std::uint32_t kHeadersOfHttpHeaders = 1;
constexpr std::uint32_t kEndOfHttpHeaders = 3;
constexpr std::uint32_t kBodyOfHttpBody = 1;
constexpr std::uint32_t kEndOfHttpBody = 2;
constexpr std::uint32_t kSetHeaders = 1;        // of HeaderMutation
constexpr std::uint32_t kStreamedResponse = 3;  // of BodyMutation
constexpr std::uint32_t kCodeDetails = 5;       // ImmediateResponse.details
// envoy.config.core.v3
constexpr std::uint32_t kHeader = 1;        // of HeaderMap and HeaderValueOption
constexpr std::uint32_t kAppendAction = 3;  // of HeaderValueOption
constexpr std::uint64_t kOverwriteOrAdd = 2;
constexpr std::uint32_t kKeyOfHeader = 1;
constexpr std::uint32_t kTextOfHeader = 2;
constexpr std::uint32_t kBytesOfHeader = 3;
// google.protobuf: map entries, Struct, Value, ListValue
constexpr std::uint32_t kMapKey = 1;
constexpr std::uint32_t kMapValue = 2;
constexpr std::uint32_t kFields = 1;  // of Struct; the same number as Metadata.filter_metadata and ListValue.values
constexpr std::uint32_t kString = 3;  // of Value, as the next two
constexpr std::uint32_t kStruct = 5;
constexpr std::uint32_t kList = 6;

// Calls `visit(field)`, which returns a Result<void>, for each field of the message.
template <class Visit>
Result<void> for_each_field(std::string_view message, Visit visit) {
  WireReader reader(message);
  WireField field;
  while (true) {
    KVIST_TRY(const bool any, reader.next(field));
    if (!any) return {};
    KVIST_TRY_VOID(visit(field));
  }
}

struct MapEntry {
  std::string_view key;
  std::string_view value;
};

Result<MapEntry> read_entry(std::string_view bytes) {
  MapEntry entry;
  KVIST_TRY_VOID(for_each_field(bytes, [&](const WireField& field) -> Result<void> {
    if (field.is_bytes(kMapKey)) entry.key = field.bytes;
    if (field.is_bytes(kMapValue)) entry.value = field.bytes;
    return {};
  }));
  return entry;
}

// Calls `visit(entry)` for each entry of a map in this field of the message.
template <class Visit>
Result<void> for_each_entry(std::string_view message, std::uint32_t number, Visit visit) {
  return for_each_field(message, [&](const WireField& field) -> Result<void> {
    if (!field.is_bytes(number)) return {};
    KVIST_TRY(const MapEntry entry, read_entry(field.bytes));
    return visit(entry);
  });
}

// What a Value has in this field: a string, a struct or a list; empty: something else.
Result<std::string_view> read_value(std::string_view value, std::uint32_t kind) {
  std::string_view found;
  KVIST_TRY_VOID(for_each_field(value, [&](const WireField& field) -> Result<void> {
    if (field.is_bytes(kind)) found = field.bytes;
    return {};
  }));
  return found;
}

Result<void> read_header(std::string_view bytes, net::Headers& headers) {
  std::string_view key;
  std::string_view value;
  KVIST_TRY_VOID(for_each_field(bytes, [&](const WireField& field) -> Result<void> {
    if (field.is_bytes(kKeyOfHeader)) key = field.bytes;
    if (field.is_bytes(kTextOfHeader) && value.empty()) value = field.bytes;
    if (field.is_bytes(kBytesOfHeader) && !field.bytes.empty()) value = field.bytes;
    return {};
  }));
  if (headers.fields().size() >= kMostFields)
    return fail(ErrorCode::kTooLarge, fmt::format("a message has more than {} header fields", kMostFields));
  headers.add(std::string(key), std::string(value));
  return {};
}

Result<void> read_http_headers(std::string_view bytes, ProcessingRequest& request) {
  return for_each_field(bytes, [&](const WireField& field) -> Result<void> {
    if (field.is_varint(kEndOfHttpHeaders)) request.end_of_stream = field.value != 0;
    if (!field.is_bytes(kHeadersOfHttpHeaders)) return {};
    return for_each_field(field.bytes, [&](const WireField& header) -> Result<void> {
      return header.is_bytes(kHeader) ? read_header(header.bytes, request.headers) : Result<void>();
    });
  });
}

Result<void> read_http_body(std::string_view bytes, ProcessingRequest& request) {
  return for_each_field(bytes, [&](const WireField& field) -> Result<void> {
    if (field.is_bytes(kBodyOfHttpBody)) request.body = field.bytes;
    if (field.is_varint(kEndOfHttpBody)) request.end_of_stream = field.value != 0;
    return {};
  });
}

Result<void> read_part(Part part, std::string_view bytes, ProcessingRequest& request) {
  request.part = part;
  request.headers = {};
  request.body.clear();
  request.end_of_stream = false;
  switch (part) {
    case Part::kRequestHeaders:
    case Part::kResponseHeaders:
      return read_http_headers(bytes, request);
    case Part::kRequestBody:
    case Part::kResponseBody:
      return read_http_body(bytes, request);
    case Part::kRequestTrailers:
    case Part::kResponseTrailers:
      request.end_of_stream = true;
      return {};
  }
  return {};
}

Result<void> read_subset(std::string_view list, std::vector<std::string>& subset) {
  return for_each_field(list, [&](const WireField& field) -> Result<void> {
    if (!field.is_bytes(kFields)) return {};
    KVIST_TRY(const std::string_view endpoint, read_value(field.bytes, kString));
    if (subset.size() >= kMostSubsetEndpoints)
      return fail(ErrorCode::kTooLarge, fmt::format("a subset has more than {} endpoints", kMostSubsetEndpoints));
    subset.emplace_back(endpoint);
    return {};
  });
}

Result<void> read_metadata(std::string_view bytes, ProcessingRequest& request) {
  return for_each_entry(bytes, kFields, [&](const MapEntry& space) -> Result<void> {
    const bool hints = space.key == kSubsetNamespace;
    if (!hints && space.key != kEndpointNamespace) return {};
    return for_each_entry(space.value, kFields, [&](const MapEntry& entry) -> Result<void> {
      if (hints && entry.key == kSubsetKey) {
        request.subset.emplace();
        KVIST_TRY(const std::string_view list, read_value(entry.value, kList));
        return read_subset(list, *request.subset);
      }
      if (!hints && entry.key == kServedKey) {
        KVIST_TRY(request.served, read_value(entry.value, kString));
      }
      return {};
    });
  });
}

// Every extension may have a struct of attributes of its own; what the name means is the same in all.
Result<void> read_attributes(std::string_view entry, ProcessingRequest& request) {
  KVIST_TRY(const MapEntry attributes, read_entry(entry));
  return for_each_entry(attributes.value, kFields, [&](const MapEntry& attribute) -> Result<void> {
    if (attribute.key != "response.code_details") return {};
    KVIST_TRY(request.code_details, read_value(attribute.value, kString));
    return {};
  });
}

Result<BodyMode> body_mode(std::uint64_t value) {
  if (value > static_cast<std::uint64_t>(BodyMode::kGrpc))
    return fail(ErrorCode::kCorrupt,
                fmt::format("a body is sent in a mode of the number {}, which is not known", value));
  return static_cast<BodyMode>(value);
}

Result<Protocol> read_protocol(std::string_view bytes) {
  constexpr std::uint32_t kRequestMode = 1;
  constexpr std::uint32_t kResponseMode = 2;
  Protocol protocol{.request_body = BodyMode::kNone, .response_body = BodyMode::kNone};
  KVIST_TRY_VOID(for_each_field(bytes, [&](const WireField& field) -> Result<void> {
    if (field.is_varint(kRequestMode)) {
      KVIST_TRY(protocol.request_body, body_mode(field.value));
    }
    if (field.is_varint(kResponseMode)) {
      KVIST_TRY(protocol.response_body, body_mode(field.value));
    }
    return {};
  }));
  return protocol;
}

Result<void> read_field(const WireField& field, ProcessingRequest& request, bool& has_part) {
  namespace numbers = processing_request;
  if (field.is_varint(numbers::kObservability)) request.observes_only = field.value != 0;
  if (field.type != WireField::Type::kBytes) return {};
  if (field.number == numbers::kMetadata) return read_metadata(field.bytes, request);
  if (field.number == numbers::kAttributes) return read_attributes(field.bytes, request);
  if (field.number == numbers::kProtocol) {
    KVIST_TRY(request.protocol, read_protocol(field.bytes));
    return {};
  }
  const auto found = std::ranges::find(numbers::kParts, field.number);
  if (found == numbers::kParts.end()) return {};
  has_part = true;
  return read_part(static_cast<Part>(std::distance(numbers::kParts.begin(), found)), field.bytes, request);
}

std::string response_of(Part part, const WireWriter& answer) {
  WireWriter response;
  response.message(processing_response::kParts[static_cast<std::size_t>(part)], answer);
  return std::move(response).take();
}

// HeadersResponse and BodyResponse have a CommonResponse as their only field.
WireWriter around(const WireWriter& common) {
  WireWriter answer;
  answer.message(1, common);
  return answer;
}

WireWriter header_mutation(const HeaderFields& fields) {
  WireWriter mutation;
  for (const auto& [name, value] : fields) {
    WireWriter header;
    header.bytes(kKeyOfHeader, name);
    header.bytes(kBytesOfHeader, value);
    WireWriter option;
    option.message(kHeader, header);
    option.varint(kAppendAction, kOverwriteOrAdd);
    mutation.message(kSetHeaders, option);
  }
  return mutation;
}

// A Struct with one field.
WireWriter struct_of(std::string_view key, const WireWriter& value) {
  WireWriter entry;
  entry.bytes(kMapKey, key);
  entry.message(kMapValue, value);
  WireWriter whole;
  whole.message(kFields, entry);
  return whole;
}

}  // namespace

std::string_view to_string(Part part) {
  static constexpr std::array<std::string_view, 6> kNames = {
      "request_headers", "response_headers", "request_body", "response_body", "request_trailers", "response_trailers"};
  return kNames.at(static_cast<std::size_t>(part));
}

std::string_view to_string(BodyMode mode) {
  static constexpr std::array<std::string_view, 6> kNames = {
      "NONE", "STREAMED", "BUFFERED", "BUFFERED_PARTIAL", "FULL_DUPLEX_STREAMED", "GRPC"};
  return kNames.at(static_cast<std::size_t>(mode));
}

Result<ProcessingRequest> read_processing_request(std::string_view bytes) {
  ProcessingRequest request;
  bool has_part = false;
  KVIST_TRY_VOID(for_each_field(
      bytes, [&](const WireField& field) -> Result<void> { return read_field(field, request, has_part); }));
  if (!has_part) return fail(ErrorCode::kCorrupt, "a message is about no part of a request or an answer");
  return request;
}

std::string write_continue(Part part) {
  if (part == Part::kRequestTrailers || part == Part::kResponseTrailers) return response_of(part, {});
  return response_of(part, around({}));
}

std::string write_destination(Part part, std::string_view endpoints) {
  WireWriter common;
  common.message(common_response::kHeaderMutation,
                 header_mutation({{std::string(kEndpointKey), std::string(endpoints)}}));
  common.varint(common_response::kClearRouteCache, 1);
  WireWriter text;
  text.bytes(kString, endpoints);
  WireWriter space;
  space.message(kStruct, struct_of(kEndpointKey, text));
  WireWriter response;
  response.message(processing_response::kParts[static_cast<std::size_t>(part)], around(common));
  response.message(processing_response::kDynamicMetadata, struct_of(kEndpointNamespace, space));
  return std::move(response).take();
}

std::string write_body_part(Part part, std::string_view body, bool end_of_stream) {
  WireWriter streamed;
  streamed.bytes(1, body);
  if (end_of_stream) streamed.varint(2, 1);
  WireWriter mutation;
  mutation.message(kStreamedResponse, streamed);
  WireWriter common;
  common.message(common_response::kBodyMutation, mutation);
  return response_of(part, around(common));
}

std::string write_immediate(const ImmediateResponse& immediate) {
  WireWriter status;
  status.varint(1, static_cast<std::uint64_t>(immediate.status));
  WireWriter answer;
  answer.message(1, status);
  answer.message(2, header_mutation(immediate.headers));
  answer.bytes(3, immediate.body);
  answer.bytes(kCodeDetails, "kvist");
  WireWriter response;
  response.message(processing_response::kImmediate, answer);
  return std::move(response).take();
}

Result<std::string> read_health_request(std::string_view bytes) {
  std::string service;
  KVIST_TRY_VOID(for_each_field(bytes, [&](const WireField& field) -> Result<void> {
    if (field.is_bytes(1)) service = field.bytes;
    return {};
  }));
  return service;
}

std::string write_health_response(bool serving) {
  WireWriter response;
  response.varint(1, serving ? 1 : 2);
  return std::move(response).take();
}

}  // namespace kvist::epp
