#include "kvist/kv/kv_event_reader.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "kvist/kv/msgpack.h"

namespace kvist::kv {
namespace {

using Bytes = std::span<const std::uint8_t>;
using Kind = MsgpackToken::Kind;

/// Every field any event has, by its name in the map form; the order is that of BlockStored's positional form.
enum Field : std::size_t {
  kBlockHashes,
  kParentBlockHash,
  kTokenIds,
  kBlockSize,
  kLoraId,
  kMedium,
  kLoraName,
  kExtraKeys,
  kGroupIndex,
  kSpecKind,
  kSpecSlidingWindow,
  kLocality,
  kOwnership,
  kFieldCount,
};

constexpr std::array<std::string_view, kFieldCount> kFieldNames = {
    "block_hashes",
    "parent_block_hash",
    "token_ids",
    "block_size",
    "lora_id",
    "medium",
    "lora_name",
    "extra_keys",
    "group_idx",
    "kv_cache_spec_kind",
    "kv_cache_spec_sliding_window",
    "locality",
    "ownership",
};

constexpr std::array kStoredFields = {
    kBlockHashes, kParentBlockHash, kTokenIds, kBlockSize,         kLoraId,   kMedium,   kLoraName,
    kExtraKeys,   kGroupIndex,      kSpecKind, kSpecSlidingWindow, kLocality, kOwnership};
constexpr std::array kRemovedFields = {kBlockHashes,       kMedium,   kGroupIndex, kSpecKind,
                                       kSpecSlidingWindow, kLocality, kOwnership};
constexpr std::array kClearedFields = {kOwnership};

/// An event taken apart, whichever form it came in.
struct RawEvent {
  std::string_view tag;
  std::array<Bytes, kFieldCount> fields;  // one msgpack value each; empty: not there
  FieldCounts unknown_fields = {};
};

std::unexpected<Error> useless(std::string message) {
  return fail(ErrorCode::kCorrupt, std::move(message));
}

/// The start of a peer's text, fit for a log line.
std::string printable(std::string_view text) {
  constexpr std::size_t kShownBytes = 40;
  std::string shown(text.substr(0, kShownBytes));
  std::replace_if(shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return shown;
}

std::span<const Field> positional_fields(std::string_view tag) {
  if (tag == "BlockStored") return kStoredFields;
  if (tag == "BlockRemoved") return kRemovedFields;
  if (tag == "AllBlocksCleared") return kClearedFields;
  return {};
}

MsgpackToken first_token(Bytes value) {
  return MsgpackReader(value).next().value_or(MsgpackToken{});
}

bool is_nil(Bytes value) {
  return value.empty() || first_token(value).kind == Kind::kNil;
}

Result<RawEvent> take_array_apart(MsgpackReader reader, std::uint32_t items) {
  RawEvent raw;
  const auto tag = items == 0 ? std::nullopt : reader.skip();
  if (!tag || first_token(*tag).kind != Kind::kString) return useless("an event without a tag");
  raw.tag = first_token(*tag).text();
  const auto fields = positional_fields(raw.tag);
  for (std::uint32_t i = 0; i + 1 < items; ++i) {
    const auto value = reader.skip();
    if (!value) return useless("an event that ends early");
    if (i < fields.size())
      raw.fields[fields[i]] = *value;
    else
      raw.unknown_fields.add(fmt::format("{}.{}", raw.tag, i + 1));
  }
  return raw;
}

Result<RawEvent> take_map_apart(MsgpackReader reader, std::uint32_t pairs) {
  RawEvent raw;
  for (std::uint32_t i = 0; i < pairs; ++i) {
    const auto key = reader.skip();
    const auto value = key ? reader.skip() : std::nullopt;
    if (!value) return useless("an event that ends early");
    const MsgpackToken name = first_token(*key);
    const bool is_string = name.kind == Kind::kString;
    const auto* field = is_string ? std::find(kFieldNames.begin(), kFieldNames.end(), name.text()) : kFieldNames.end();
    if (field != kFieldNames.end())
      raw.fields[static_cast<std::size_t>(field - kFieldNames.begin())] = *value;
    else if (is_string && name.text() == "type" && first_token(*value).kind == Kind::kString)
      raw.tag = first_token(*value).text();
    else
      raw.unknown_fields.add(is_string ? name.text() : FieldCounts::kOther);
  }
  if (raw.tag.empty()) return useless("an event without a type");
  return raw;
}

Result<RawEvent> take_apart(Bytes value) {
  MsgpackReader reader(value);
  const auto outer = reader.next();
  if (outer && outer->kind == Kind::kArray) return take_array_apart(reader, outer->count);
  if (outer && outer->kind == Kind::kMap) return take_map_apart(reader, outer->count);
  return useless("an event that is neither array nor map");
}

std::unexpected<Error> bad_field(const RawEvent& raw, Field field, std::string_view want) {
  return useless(fmt::format("{}: {} is not {}", raw.tag, kFieldNames[field], want));
}

std::optional<std::uint32_t> to_u32(const MsgpackToken& token) {
  if (token.kind != Kind::kUnsigned || token.integer > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(token.integer);
}

/// Integers of either sign by their bits; raw bytes (old encoders write them as strings) by their hash.
std::optional<ExternalHash> to_hash(const MsgpackToken& token) {
  if (token.kind == Kind::kUnsigned || token.kind == Kind::kNegative) return ExternalHash(token.integer);
  if ((token.kind == Kind::kBinary || token.kind == Kind::kString) && !token.bytes.empty())
    return ExternalHash(XXH3_64bits(token.bytes.data(), token.bytes.size()));
  return std::nullopt;
}

Result<std::vector<ExternalHash>> read_hashes(const RawEvent& raw) {
  MsgpackReader reader(raw.fields[kBlockHashes]);
  const auto list = reader.next();
  if (!list || list->kind != Kind::kArray) return bad_field(raw, kBlockHashes, "a list");
  std::vector<ExternalHash> hashes;
  hashes.reserve(list->count);  // at most the bytes that are left
  for (std::uint32_t i = 0; i < list->count; ++i) {
    const auto token = reader.next();
    const auto hash = token ? to_hash(*token) : std::nullopt;
    if (!hash) return bad_field(raw, kBlockHashes, "a list of integers or raw bytes");
    hashes.push_back(*hash);
  }
  return hashes;
}

Result<std::vector<TokenId>> read_tokens(const RawEvent& raw) {
  MsgpackReader reader(raw.fields[kTokenIds]);
  const auto list = reader.next();
  if (!list || list->kind != Kind::kArray) return bad_field(raw, kTokenIds, "a list");
  std::vector<TokenId> tokens;
  tokens.reserve(list->count);
  for (std::uint32_t i = 0; i < list->count; ++i) {
    const auto token = reader.next();
    const auto id = token ? to_u32(*token) : std::nullopt;
    if (!id) return bad_field(raw, kTokenIds, "a list of 32-bit token ids");
    tokens.emplace_back(*id);
  }
  return tokens;
}

Result<Medium> read_medium(const RawEvent& raw) {
  const Bytes value = raw.fields[kMedium];
  if (is_nil(value)) return Medium::kDevice;
  const MsgpackToken token = first_token(value);
  if (token.kind != Kind::kString) return bad_field(raw, kMedium, "a name");
  const std::string_view name = token.text();
  const auto one_of = [name](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (one_of({"", "GPU", "DEVICE"})) return Medium::kDevice;
  if (one_of({"CPU", "CPU_PINNED", "CPU_TIER1"})) return Medium::kHost;
  if (one_of({"CPU_TIER2", "DISK", "NVME", "STORAGE"})) return Medium::kDisk;
  return Medium::kRemote;
}

Result<std::uint32_t> read_group(const RawEvent& raw) {
  const Bytes value = raw.fields[kGroupIndex];
  if (is_nil(value)) return 0U;
  const auto group = to_u32(first_token(value));
  if (!group) return bad_field(raw, kGroupIndex, "a group number");
  return *group;
}

/// The LoRA by its name. A number alone says that there is one but not which: vLLM counts from 1, others send 0 for
/// none.
Result<void> read_lora(const RawEvent& raw, BlockStored& event) {
  if (!is_nil(raw.fields[kLoraName])) {
    const MsgpackToken name = first_token(raw.fields[kLoraName]);
    if (name.kind != Kind::kString) return bad_field(raw, kLoraName, "a name");
    event.lora_name = name.text();
  }
  if (event.lora_name.empty() && !is_nil(raw.fields[kLoraId])) {
    const MsgpackToken id = first_token(raw.fields[kLoraId]);
    if (id.kind != Kind::kUnsigned || id.integer != 0) event.other_extra_keys = true;
  }
  return {};
}

/// The keys of one block: vLLM lists the LoRA name, multimodal hashes with offsets, and with a prompt's first block the
/// cache salt. Strings are the only ones we can name.
void read_block_keys(Bytes keys, bool starts_prompt, BlockStored& event) {
  if (is_nil(keys)) return;
  MsgpackReader reader(keys);
  const auto entry = reader.next();
  if (!entry || entry->kind != Kind::kArray) {
    event.other_extra_keys = true;
    return;
  }
  bool lora_seen = event.lora_name.empty();
  for (std::uint32_t i = 0; i < entry->count; ++i) {
    const auto value = reader.skip();
    const MsgpackToken key = value ? first_token(*value) : MsgpackToken{};
    if (key.kind == Kind::kString && !lora_seen && key.text() == event.lora_name)
      lora_seen = true;
    else if (key.kind == Kind::kString && starts_prompt && event.cache_salt.empty())
      event.cache_salt = key.text();
    else if (key.kind != Kind::kNil)
      event.other_extra_keys = true;
  }
}

void read_extra_keys(const RawEvent& raw, BlockStored& event) {
  if (is_nil(raw.fields[kExtraKeys])) return;
  MsgpackReader reader(raw.fields[kExtraKeys]);
  const auto list = reader.next();
  if (!list || list->kind != Kind::kArray) {
    event.other_extra_keys = true;
    return;
  }
  for (std::uint32_t block = 0; block < list->count; ++block)
    read_block_keys(reader.skip().value_or(Bytes{}), block == 0 && !event.parent, event);
}

Result<KvEvent> read_stored(const RawEvent& raw) {
  BlockStored event;
  KVIST_TRY(event.hashes, read_hashes(raw));
  KVIST_TRY(event.tokens, read_tokens(raw));
  KVIST_TRY(event.medium, read_medium(raw));
  KVIST_TRY(event.group, read_group(raw));
  const auto block_size = to_u32(first_token(raw.fields[kBlockSize]));
  if (!block_size || *block_size == 0) return bad_field(raw, kBlockSize, "a positive number");
  event.block_size = *block_size;
  if (event.hashes.empty()) return useless("BlockStored: no blocks");
  if (std::uint64_t{event.hashes.size()} * *block_size != event.tokens.size())
    return useless(fmt::format("BlockStored: {} tokens in {} blocks of {}", event.tokens.size(), event.hashes.size(),
                               *block_size));
  if (!is_nil(raw.fields[kParentBlockHash])) {
    event.parent = to_hash(first_token(raw.fields[kParentBlockHash]));
    if (!event.parent) return bad_field(raw, kParentBlockHash, "an integer, raw bytes or nil");
  }
  KVIST_TRY_VOID(read_lora(raw, event));
  read_extra_keys(raw, event);
  return event;
}

Result<KvEvent> read_removed(const RawEvent& raw) {
  BlockRemoved event;
  KVIST_TRY(event.hashes, read_hashes(raw));
  KVIST_TRY(event.medium, read_medium(raw));
  KVIST_TRY(event.group, read_group(raw));
  return event;
}

Result<KvEvent> read_event(const RawEvent& raw) {
  if (raw.tag == "BlockStored") return read_stored(raw);
  if (raw.tag == "BlockRemoved") return read_removed(raw);
  if (raw.tag == "AllBlocksCleared") return AllBlocksCleared{};
  return useless(fmt::format("unknown event \"{}\"", printable(raw.tag)));
}

}  // namespace

Result<ReadKvEvent> read_kv_event(Bytes value) {
  KVIST_TRY(RawEvent raw, take_apart(value));
  KVIST_TRY(KvEvent event, read_event(raw));
  return ReadKvEvent{.event = std::move(event), .unknown_fields = std::move(raw.unknown_fields)};
}

}  // namespace kvist::kv
