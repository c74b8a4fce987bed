"""Envoy's side of ext_proc, as far as the endpoint picker protocol needs it: its messages by Debian's protobuf, its stream by Debian's
grpcio. The field numbers are Envoy's published ones (envoy/service/ext_proc/v3/external_processor.proto and what it imports)."""
import queue

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, struct_pb2

NONE, STREAMED, BUFFERED, BUFFERED_PARTIAL, FULL_DUPLEX_STREAMED, GRPC = range(6)
PROCESS = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
HEALTH = "/grpc.health.v1.Health/Check"

# message: (field, number, type); a type that is no scalar is a message; "*" behind it: repeated, "%": a map from strings to it.
MESSAGES = {
    "HeaderValue": [("key", 1, "string"), ("value", 2, "string"), ("raw_value", 3, "bytes")],
    "HeaderMap": [("headers", 1, "HeaderValue*")],
    "HeaderValueOption": [("header", 1, "HeaderValue"), ("append_action", 3, "int32")],
    "HeaderMutation": [("set_headers", 1, "HeaderValueOption*"), ("remove_headers", 2, "string*")],
    "Metadata": [("filter_metadata", 1, ".google.protobuf.Struct%")],
    "HttpHeaders": [("headers", 1, "HeaderMap"), ("end_of_stream", 3, "bool")],
    "HttpBody": [("body", 1, "bytes"), ("end_of_stream", 2, "bool")],
    "HttpTrailers": [("trailers", 1, "HeaderMap")],
    "ProtocolConfiguration": [("request_body_mode", 1, "int32"), ("response_body_mode", 2, "int32"), ("send_body_without_waiting_for_header_response", 3, "bool")],
    "ProcessingRequest": [("request_headers", 2, "HttpHeaders"), ("response_headers", 3, "HttpHeaders"), ("request_body", 4, "HttpBody"),
                          ("response_body", 5, "HttpBody"), ("request_trailers", 6, "HttpTrailers"), ("response_trailers", 7, "HttpTrailers"),
                          ("metadata_context", 8, "Metadata"), ("attributes", 9, ".google.protobuf.Struct%"), ("observability_mode", 10, "bool"),
                          ("protocol_config", 11, "ProtocolConfiguration")],
    "StreamedBodyResponse": [("body", 1, "bytes"), ("end_of_stream", 2, "bool")],
    "BodyMutation": [("body", 1, "bytes"), ("clear_body", 2, "bool"), ("streamed_response", 3, "StreamedBodyResponse")],
    "CommonResponse": [("status", 1, "int32"), ("header_mutation", 2, "HeaderMutation"), ("body_mutation", 3, "BodyMutation"), ("clear_route_cache", 5, "bool")],
    "HeadersResponse": [("response", 1, "CommonResponse")],
    "BodyResponse": [("response", 1, "CommonResponse")],
    "TrailersResponse": [("header_mutation", 1, "HeaderMutation")],
    "HttpStatus": [("code", 1, "int32")],
    "ImmediateResponse": [("status", 1, "HttpStatus"), ("headers", 2, "HeaderMutation"), ("body", 3, "bytes"), ("details", 5, "string")],
    "ProcessingResponse": [("request_headers", 1, "HeadersResponse"), ("response_headers", 2, "HeadersResponse"), ("request_body", 3, "BodyResponse"),
                           ("response_body", 4, "BodyResponse"), ("request_trailers", 5, "TrailersResponse"), ("response_trailers", 6, "TrailersResponse"),
                           ("immediate_response", 7, "ImmediateResponse"), ("dynamic_metadata", 8, ".google.protobuf.Struct")],
    "HealthCheckRequest": [("service", 1, "string")],
    "HealthCheckResponse": [("status", 1, "int32")],
}


def _classes():
    package = "kvist.test"
    file = descriptor_pb2.FileDescriptorProto(name="kvist_ext_proc_test.proto", package=package, syntax="proto3", dependency=["google/protobuf/struct.proto"])
    scalars = {"string": 9, "bytes": 12, "bool": 8, "int32": 5}
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            entry = message.field.add(name=field, number=number, label=3 if kind[-1] in "*%" else 1)
            bare = kind.rstrip("*%")
            full = bare if bare.startswith(".") else f".{package}.{bare}"
            if bare in scalars:
                entry.type = scalars[bare]
            elif kind.endswith("%"):
                nested = "".join(part.capitalize() for part in field.split("_")) + "Entry"
                pair = message.nested_type.add(name=nested)
                pair.options.map_entry = True
                pair.field.add(name="key", number=1, type=9, label=1)
                pair.field.add(name="value", number=2, type=11, label=1, type_name=full)
                entry.type, entry.type_name = 11, f".{package}.{name}.{nested}"
            else:
                entry.type, entry.type_name = 11, full
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return {name: factory.GetPrototype(pool.FindMessageTypeByName(f"{package}.{name}")) for name in MESSAGES}


TYPES = _classes()


def headers(fields, end_of_stream=False):
    message = TYPES["HttpHeaders"](end_of_stream=end_of_stream)
    for key, value in fields.items():
        message.headers.headers.add(key=key, raw_value=value.encode())
    return message


class Exchange:
    """One HTTP request as Envoy's filter tells of it."""

    def __init__(self, channel, request_mode=FULL_DUPLEX_STREAMED, response_mode=FULL_DUPLEX_STREAMED):
        self.sent = queue.Queue()
        self.modes = (request_mode, response_mode)
        call = channel.stream_stream(PROCESS, request_serializer=lambda m: m.SerializeToString(), response_deserializer=TYPES["ProcessingResponse"].FromString)
        self.answers = call(iter(self.sent.get, None), timeout=100)
        self.first = True

    def send(self, **fields):
        message = TYPES["ProcessingRequest"](**fields)
        if self.first:
            message.protocol_config.request_body_mode, message.protocol_config.response_body_mode = self.modes
            self.first = False
        self.sent.put(message)

    def send_request(self, body, path="/v1/chat/completions", subset=None, method="POST", more=None, pieces=1):
        metadata = TYPES["Metadata"]()
        if subset is not None:
            metadata.filter_metadata["envoy.lb.subset_hint"].get_or_create_list("x-gateway-destination-endpoint-subset").extend(subset)
        self.send(request_headers=headers({":method": method, ":path": path, ":scheme": "http", ":authority": "gateway", **(more or {})}, end_of_stream=not body),
                  metadata_context=metadata)
        if self.modes[0] == BUFFERED and body:
            assert self.next().HasField("request_headers"), "Envoy sends a buffered body when its headers were answered"
        step = max(1, -(-len(body) // pieces))
        for at in range(0, len(body), step):
            self.send(request_body=TYPES["HttpBody"](body=body[at:at + step], end_of_stream=at + step >= len(body)))

    def next(self):
        return next(self.answers)

    def half_close(self):
        self.sent.put(None)

    def reset(self):
        self.answers.cancel()
        self.sent.put(None)


def destination(message):
    """The endpoints of an answer, which has to say the same twice."""
    common = message.request_body.response if message.HasField("request_body") else message.request_headers.response
    named = {h.header.key: h.header.raw_value.decode() for h in common.header_mutation.set_headers}
    told = message.dynamic_metadata["envoy.lb"]["x-gateway-destination-endpoint"]
    assert named == {"x-gateway-destination-endpoint": told}, (named, told)
    assert common.clear_route_cache and [h.append_action for h in common.header_mutation.set_headers] == [2]
    return told.split(",")


def check_health(channel, service=""):
    call = channel.unary_unary(HEALTH, request_serializer=lambda m: m.SerializeToString(), response_deserializer=TYPES["HealthCheckResponse"].FromString)
    return call(TYPES["HealthCheckRequest"](service=service), timeout=100).status
