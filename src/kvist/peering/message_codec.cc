#include "kvist/peering/message_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "kvist/kv/msgpack.h"
#include "kvist/peering/message_items.h"

namespace kvist::peering {
namespace {

using kv::MsgpackWriter;

constexpr std::uint64_t kVersion = 2;
constexpr std::size_t kMessageItems = 5;
constexpr std::size_t kRoutedItems = 11;
constexpr std::chrono::microseconds kLongestHeld = std::chrono::hours(1);  // Heard::held
constexpr std::uint64_t kStreams = 1;
constexpr std::uint64_t kDecoding = 2;
constexpr unsigned kFlags = 2;  // the number of further choices is behind them

enum class Tag : std::uint8_t { kRouted, kFirstToken, kProgress, kEnded, kState, kGoodbye, kHeard };

class EventWriter {
 public:
  explicit EventWriter(std::string& out) : out_(out) {}

  void operator()(const Routed& routed) {
    begin(Tag::kRouted, kRoutedItems);
    fields(routed);
  }
  void operator()(const FirstToken& event) {
    begin(Tag::kFirstToken, 1);
    number(event.attempt.value());
  }
  void operator()(const Progress& event) {
    begin(Tag::kProgress, 2);
    number(event.attempt.value());
    number(event.output_tokens);
  }
  void operator()(const Ended& event) {
    begin(Tag::kEnded, 3);
    number(event.attempt.value());
    number(event.output_tokens);
    out_.boolean(event.completed);
  }
  void operator()(const State& state) {
    begin(Tag::kState, 3);
    number(state.after.value());
    number(state.until.value());
    out_.array(state.requests.size());
    for (const Routed& request : state.requests) {
      out_.array(kRoutedItems);
      fields(request);
    }
  }
  void operator()(const Goodbye& /*event*/) { begin(Tag::kGoodbye, 0); }
  void operator()(const Heard& event) {
    begin(Tag::kHeard, 4);
    number(event.gateway.value());
    number(event.run);
    number(event.sequence);
    number(static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(event.held).count()));
  }
  // As progress of no request, of which a gateway of an earlier version makes nothing. It reads no event of a new kind.
  void operator()(const Refused& event) {
    begin(Tag::kProgress, 2);
    number(0);
    number(event.requests);
  }

 private:
  void begin(Tag tag, std::size_t items) {
    out_.array(1 + items);
    number(static_cast<std::uint64_t>(tag));
  }
  void number(std::uint64_t value) { out_.unsigned_integer(value); }
  void fields(const Routed& routed) {
    number(routed.attempt.value());
    number(routed.worker.value());
    number(routed.prompt_tokens);
    number(routed.uncached_tokens);
    number(routed.known_tokens);
    number(routed.own_blocks);
    number(routed.new_blocks);
    // A gateway of an earlier version looks at the two flags alone.
    const std::uint64_t further_choices = std::min(routed.choices, kMaxChoices) - 1;
    number((routed.streams ? kStreams : 0) | (routed.decoding ? kDecoding : 0) | further_choices << kFlags);
    number(routed.output_tokens);
    number(routed.session);
    const auto blocks = routing::view(routed.blocks);
    if (blocks.empty() || blocks.size() > kMaxPromptBlocks) return out_.nil();
    out_.binary(little_endian(blocks));
  }

  MsgpackWriter out_;
};

// No request takes more of a worker than its prompt: a sum of loads stays far below what a number holds.
Routed read_routed(MessageItems& items) {
  Routed routed;
  routed.attempt = AttemptId(items.number());
  routed.worker = WorkerKey(items.number());
  routed.prompt_tokens = items.number32();
  routed.uncached_tokens = items.number32();
  routed.known_tokens = items.number32();
  routed.own_blocks = items.number32();
  routed.new_blocks = items.number32();
  const std::uint64_t flags = items.number((std::uint64_t{kMaxChoices} << kFlags) - 1);
  routed.streams = (flags & kStreams) != 0;
  routed.decoding = (flags & kDecoding) != 0;
  routed.choices = static_cast<std::uint32_t>(flags >> kFlags) + 1;
  routed.output_tokens = items.number32();
  routed.session = items.number();
  if (!items.nil()) {
    auto blocks = std::make_shared<std::vector<kv::BlockHash>>();
    items.numbers(kMaxPromptBlocks, *blocks);
    routed.blocks = std::move(blocks);
  }
  const std::uint32_t prompt = routed.prompt_tokens;
  const bool fits = routed.uncached_tokens <= prompt && routed.known_tokens <= prompt && routed.own_blocks <= prompt &&
                    routed.new_blocks <= prompt && routing::view(routed.blocks).size() <= prompt;
  if (routed.attempt == AttemptId() || !fits) items.refuse();
  return routed;
}

State read_state(MessageItems& items) {
  State state;
  state.after = AttemptId(items.number());
  state.until = AttemptId(items.number());
  const std::size_t count = items.array(kMaxStateRequests);
  AttemptId last = state.after;
  for (std::size_t i = 0; i < count && items.good(); ++i) {
    items.array_of(kRoutedItems);
    state.requests.push_back(read_routed(items));
    if (state.requests.back().attempt <= last || state.requests.back().attempt > state.until) items.refuse();
    last = state.requests.back().attempt;
  }
  return state;
}

Event read_event(MessageItems& items) {
  const std::size_t count = items.array(1 + kRoutedItems);
  const std::uint64_t tag = items.number(static_cast<std::uint64_t>(Tag::kHeard));
  const auto expect = [&](std::size_t fields) {
    if (count != 1 + fields) items.refuse();
  };
  switch (static_cast<Tag>(tag)) {
    case Tag::kRouted:
      expect(kRoutedItems);
      return read_routed(items);
    case Tag::kFirstToken:
      expect(1);
      return FirstToken{.attempt = AttemptId(items.number())};
    case Tag::kProgress: {
      expect(2);
      const AttemptId attempt(items.number());
      if (attempt == AttemptId()) return Refused{.requests = items.number32()};
      return Progress{.attempt = attempt, .output_tokens = items.number32()};
    }
    case Tag::kEnded: {
      expect(3);
      Ended ended{.attempt = AttemptId(items.number())};
      ended.output_tokens = items.number32();
      ended.completed = items.boolean();
      return ended;
    }
    case Tag::kState:
      expect(3);
      return read_state(items);
    case Tag::kHeard: {
      expect(4);
      Heard heard{.gateway = GatewayKey(items.number())};
      heard.run = items.number();
      heard.sequence = items.number();
      heard.held = std::chrono::microseconds(items.number(kLongestHeld.count()));
      return heard;
    }
    case Tag::kGoodbye:
      expect(0);
      break;
  }
  return Goodbye();
}

}  // namespace

void encode_event(const Event& event, std::string& out) {
  EventWriter writer(out);
  std::visit(writer, event);
}

std::string encode_message(const Message& head, std::size_t count, const std::string& events) {
  std::string out;
  MsgpackWriter writer(out);
  writer.array(kMessageItems);
  writer.unsigned_integer(kVersion);
  writer.string(head.gateway);
  writer.unsigned_integer(head.run);
  writer.unsigned_integer(head.sequence);
  writer.array(count);
  out += events;
  return out;
}

std::string encode(const Message& message) {
  std::string events;
  for (const Event& event : message.events) encode_event(event, events);
  return encode_message(message, message.events.size(), events);
}

Result<Message> decode(std::span<const std::uint8_t> bytes) {
  if (bytes.size() > kMaxMessageBytes)
    return fail(ErrorCode::kTooLarge,
                fmt::format("a message has at most {} bytes, this one has {}", kMaxMessageBytes, bytes.size()));
  MessageItems items(bytes);
  items.array_of(kMessageItems);
  const std::uint64_t version = items.number();
  if (items.good() && version != kVersion)
    return fail(ErrorCode::kUnsupported, fmt::format("version {} of messages, expected {}", version, kVersion));
  Message message;
  message.gateway = items.name();
  message.run = items.number();
  message.sequence = items.number();
  const std::size_t count = items.array(kMaxEvents);
  for (std::size_t i = 0; i < count && items.good(); ++i) message.events.push_back(read_event(items));
  if (!items.good() || !items.at_end()) return fail(ErrorCode::kCorrupt, "not a message between gateways");
  return message;
}

}  // namespace kvist::peering
