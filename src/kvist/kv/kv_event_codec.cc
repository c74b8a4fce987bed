#include "kvist/kv/kv_event_codec.h"

#include <string_view>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/kv/kv_event_decoder.h"
#include "kvist/kv/msgpack.h"

namespace kvist::kv {
namespace {

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

/// Writes one entry per block, as vLLM does: with each block the LoRA name, and with the first also a stand-in for keys
/// that kvist does not know, and the salt. An entry without keys is nil.
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
  KVIST_CHECK(!event.names_are_keys, "an event that tells names alone is for this process");
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
  KvEventDecoder decoder;
  KVIST_TRY(KvEventBatchView view, decoder.decode(payload));
  DecodedKvEvents decoded{
      .batch = {.timestamp_s = view.timestamp_s, .events = {}, .data_parallel_rank = view.data_parallel_rank},
      .skipped_events = view.skipped_events,
      .unknown_fields = std::move(view.unknown_fields),
      .first_problem = std::move(view.first_problem)};
  decoded.batch.events.reserve(view.events.size());
  for (const KvEventView& event : view.events) decoded.batch.events.push_back(copy_of(event));
  return decoded;
}

}  // namespace kvist::kv
