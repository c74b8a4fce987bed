#include "kvist/kv/kv_event_codec.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/kv/kv_event_reader.h"
#include "kvist/kv/msgpack.h"

namespace kvist::kv {
namespace {

using Bytes = std::span<const std::uint8_t>;
using Kind = MsgpackToken::Kind;

/// The parts of the envelope as they lie in the payload; empty where left out.
struct Envelope {
  Bytes timestamp;
  Bytes events;
  Bytes rank;
};

std::unexpected<Error> corrupt(std::string_view what) {
  return fail(ErrorCode::kCorrupt, fmt::format("KV events: {}", what));
}

Result<Envelope> read_array_envelope(MsgpackReader& reader, std::uint32_t items) {
  Envelope envelope;
  Bytes* const known[] = {&envelope.timestamp, &envelope.events, &envelope.rank};
  for (std::uint32_t i = 0; i < items; ++i) {
    const auto value = reader.skip();
    if (!value) return corrupt("the payload ends early or is no msgpack");
    if (i < std::size(known)) *known[i] = *value;
  }
  return envelope;
}

Result<Envelope> read_map_envelope(MsgpackReader& reader, std::uint32_t pairs) {
  Envelope envelope;
  for (std::uint32_t i = 0; i < pairs; ++i) {
    const auto key = reader.skip();
    const auto value = key ? reader.skip() : std::nullopt;
    if (!value) return corrupt("the payload ends early or is no msgpack");
    const auto name = MsgpackReader(*key).next();
    if (!name || name->kind != Kind::kString) continue;
    if (name->text() == "ts") envelope.timestamp = *value;
    if (name->text() == "events") envelope.events = *value;
    if (name->text() == "data_parallel_rank") envelope.rank = *value;
  }
  return envelope;
}

Result<Envelope> read_envelope(Bytes payload) {
  MsgpackReader reader(payload);
  const auto outer = reader.next();
  if (!outer) return corrupt("the payload is empty or no msgpack");
  if (outer->kind != Kind::kArray && outer->kind != Kind::kMap) return corrupt("the batch is neither array nor map");
  KVIST_TRY(Envelope envelope, outer->kind == Kind::kArray ? read_array_envelope(reader, outer->count)
                                                           : read_map_envelope(reader, outer->count));
  if (!reader.at_end()) return corrupt("bytes follow the batch");
  return envelope;
}

/// Seconds since 1970; 0 where there is no usable number: nothing depends on it.
double read_timestamp(Bytes value) {
  const auto token = MsgpackReader(value).next();
  if (!token) return 0;
  if (token->kind == Kind::kReal && std::isfinite(token->real)) return token->real;
  if (token->kind == Kind::kUnsigned) return static_cast<double>(token->integer);
  return 0;
}

std::optional<std::int32_t> read_rank(Bytes value) {
  const auto token = MsgpackReader(value).next();
  if (!token || (token->kind != Kind::kUnsigned && token->kind != Kind::kNegative)) return std::nullopt;
  const auto rank = static_cast<std::int32_t>(token->integer);
  const bool same = token->kind == Kind::kUnsigned
                        ? rank >= 0 && static_cast<std::uint64_t>(rank) == token->integer
                        : static_cast<std::uint64_t>(static_cast<std::int64_t>(rank)) == token->integer;
  return same ? std::optional(rank) : std::nullopt;
}

std::string_view name_of(Medium medium) {
  switch (medium) {
    case Medium::kDevice:
      return "GPU";
    case Medium::kHost:
      return "CPU";
    case Medium::kDisk:
      return "DISK";
    case Medium::kRemote:
      break;
  }
  return "REMOTE";
}

void write_hashes(MsgpackWriter& writer, const std::vector<ExternalHash>& hashes) {
  writer.string("block_hashes");
  writer.array(hashes.size());
  for (const ExternalHash hash : hashes) writer.unsigned_integer(hash.value());
}

void write_name_or_nil(MsgpackWriter& writer, std::string_view name) {
  if (name.empty())
    writer.nil();
  else
    writer.string(name);
}

/// One entry per block, as vLLM: the LoRA name with each, then what we cannot name, then the salt with the first. An
/// entry that says nothing is nil.
void write_extra_keys(MsgpackWriter& writer, const BlockStored& event, bool with_salt) {
  writer.string("extra_keys");
  writer.array(event.hashes.size());
  for (std::size_t block = 0; block < event.hashes.size(); ++block) {
    const bool lora = !event.lora_name.empty();
    const bool other = block == 0 && event.other_extra_keys;
    const bool salt = block == 0 && with_salt;
    const int keys = int{lora} + int{other} + int{salt};
    if (keys == 0) {
      writer.nil();
      continue;
    }
    writer.array(static_cast<std::size_t>(keys));
    if (lora) writer.string(event.lora_name);
    if (other) {
      // In the shape of a multimodal key: a name and an offset.
      writer.array(2);
      writer.string("other");
      writer.unsigned_integer(0);
    }
    if (salt) writer.string(event.cache_salt);
  }
}

void write_group(MsgpackWriter& writer, std::uint32_t group) {
  if (group == 0) return;
  writer.string("group_idx");
  writer.unsigned_integer(group);
}

void write_event(MsgpackWriter& writer, const BlockStored& event) {
  const bool with_salt = !event.parent && !event.cache_salt.empty();
  const bool with_extra_keys = with_salt || !event.lora_name.empty() || event.other_extra_keys;
  writer.map(std::size_t{8} + (with_extra_keys ? 1 : 0) + (event.group != 0 ? 1 : 0));
  writer.string("type");
  writer.string("BlockStored");
  write_hashes(writer, event.hashes);
  writer.string("parent_block_hash");
  if (event.parent)
    writer.unsigned_integer(event.parent->value());
  else
    writer.nil();
  writer.string("token_ids");
  writer.array(event.tokens.size());
  for (const TokenId token : event.tokens) writer.unsigned_integer(token.value());
  writer.string("block_size");
  writer.unsigned_integer(event.block_size);
  writer.string("lora_id");
  writer.nil();
  writer.string("medium");
  writer.string(name_of(event.medium));
  writer.string("lora_name");
  write_name_or_nil(writer, event.lora_name);
  if (with_extra_keys) write_extra_keys(writer, event, with_salt);
  write_group(writer, event.group);
}

void write_event(MsgpackWriter& writer, const BlockRemoved& event) {
  writer.map(std::size_t{3} + (event.group != 0 ? 1 : 0));
  writer.string("type");
  writer.string("BlockRemoved");
  write_hashes(writer, event.hashes);
  writer.string("medium");
  writer.string(name_of(event.medium));
  write_group(writer, event.group);
}

void write_event(MsgpackWriter& writer, const AllBlocksCleared&) {
  writer.map(1);
  writer.string("type");
  writer.string("AllBlocksCleared");
}

}  // namespace

std::string encode_kv_events(const KvEventBatch& batch) {
  std::string out;
  MsgpackWriter writer(out);
  writer.array(batch.data_parallel_rank ? 3 : 2);
  writer.real(batch.timestamp_s);
  writer.array(batch.events.size());
  for (const KvEvent& event : batch.events) std::visit([&writer](const auto& one) { write_event(writer, one); }, event);
  if (batch.data_parallel_rank) writer.signed_integer(*batch.data_parallel_rank);
  return out;
}

Result<DecodedKvEvents> decode_kv_events(std::span<const std::uint8_t> payload) {
  KVIST_TRY(const Envelope envelope, read_envelope(payload));
  MsgpackReader reader(envelope.events);
  const auto list = reader.next();
  if (!list || list->kind != Kind::kArray) return corrupt("the batch has no list of events");
  DecodedKvEvents decoded;
  decoded.batch.timestamp_s = read_timestamp(envelope.timestamp);
  decoded.batch.data_parallel_rank = read_rank(envelope.rank);
  for (std::uint32_t i = 0; i < list->count; ++i) {
    const auto bytes = reader.skip();
    KVIST_CHECK(bytes.has_value(), "the envelope was walked over before");
    auto event = read_kv_event(*bytes);
    if (event) {
      decoded.unknown_fields.add(event->unknown_fields);
      decoded.batch.events.push_back(std::move(event->event));
    } else if (decoded.skipped_events++ == 0) {
      decoded.first_problem = std::move(event.error().message);
    }
  }
  return decoded;
}

}  // namespace kvist::kv
