#include "kvist/kv/kv_event_reader.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <initializer_list>
#include <limits>

namespace kvist::kv {
namespace {

using Bytes = std::span<const std::uint8_t>;
using Kind = MsgpackToken::Kind;

/// The beginning of a peer's text, with only such characters as a log line may have.
std::string printable(std::string_view text) {
  constexpr std::size_t kShownBytes = 40;
  std::string shown(text.substr(0, kShownBytes));
  std::replace_if(shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return shown;
}

std::optional<std::uint32_t> to_u32(const MsgpackToken& token) {
  if (token.kind != Kind::kUnsigned || token.integer > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(token.integer);
}

/// An integer of either sign is taken by its bits, raw bytes by their hash. Old encoders write raw bytes as strings.
std::optional<ExternalHash> to_hash(const MsgpackToken& token) {
  if (token.kind == Kind::kUnsigned || token.kind == Kind::kNegative) return ExternalHash(token.integer);
  if ((token.kind == Kind::kBinary || token.kind == Kind::kString) && !token.bytes.empty())
    return ExternalHash(XXH3_64bits(token.bytes.data(), token.bytes.size()));
  return std::nullopt;
}

std::optional<Medium> to_medium(const MsgpackToken& token) {
  if (token.kind == Kind::kNil) return Medium::kDevice;
  if (token.kind != Kind::kString) return std::nullopt;
  const std::string_view name = token.text();
  const auto one_of = [name](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (one_of({"GPU", "", "DEVICE"})) return Medium::kDevice;
  if (one_of({"CPU", "CPU_PINNED", "CPU_TIER1"})) return Medium::kHost;
  if (one_of({"CPU_TIER2", "DISK", "NVME", "STORAGE"})) return Medium::kDisk;
  return Medium::kRemote;
}

}  // namespace

constexpr std::array<std::string_view, KvEventReader::kFieldCount> KvEventReader::kNames = {
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

std::span<const KvEventReader::Field> KvEventReader::positional_fields(std::string_view tag) {
  static constexpr std::array kStored = {
      kBlockHashes, kParentBlockHash, kTokenIds, kBlockSize,         kLoraId,   kMedium,   kLoraName,
      kExtraKeys,   kGroupIndex,      kSpecKind, kSpecSlidingWindow, kLocality, kOwnership};
  static constexpr std::array kRemoved = {kBlockHashes,       kMedium,   kGroupIndex, kSpecKind,
                                          kSpecSlidingWindow, kLocality, kOwnership};
  static constexpr std::array kCleared = {kOwnership};
  if (tag == "BlockStored") return kStored;
  if (tag == "BlockRemoved") return kRemoved;
  if (tag == "AllBlocksCleared") return kCleared;
  return {};
}

KvEventReader::Outcome KvEventReader::read(MsgpackReader& reader, KvEventView& event) {
  tag_ = {};
  hash_list_ = {.begin = hashes_.size()};
  token_list_ = {.begin = tokens_.size()};
  seen_ = 0;
  extra_keys_ = {};
  next_name_ = 0;
  if (!unknown_fields_.empty()) unknown_fields_ = {};
  bad_field_.reset();
  complaint_ = {};
  if (!take_apart(reader)) return Outcome::kBroken;
  return complaint_.empty() && make(event) ? Outcome::kUsed : Outcome::kSkipped;
}

std::string KvEventReader::problem() const {
  if (bad_field_) return fmt::format("{}: {} is not {}", tag_, kNames[*bad_field_], complaint_);
  if (complaint_ == "unknown") return fmt::format("unknown event \"{}\"", printable(tag_));
  if (complaint_ == "counts") {
    return fmt::format("BlockStored: {} tokens in {} blocks of {}", tokens_.size() - token_list_.begin,
                       hashes_.size() - hash_list_.begin, value(kBlockSize).integer);
  }
  return std::string(complaint_);
}

bool KvEventReader::refuse(Field field, std::string_view want) {
  bad_field_ = field;
  complaint_ = want;
  return false;
}

bool KvEventReader::refuse(std::string_view what) {
  complaint_ = what;
  return false;
}

bool KvEventReader::take_apart(MsgpackReader& reader) {
  MsgpackReader inside = reader;
  const auto outer = inside.next();
  if (!outer) return false;
  if (outer->kind != Kind::kArray && outer->kind != Kind::kMap) {
    reader = inside;
    (void)refuse("an event that is neither array nor map");
    return true;
  }
  reader = inside;
  return outer->kind == Kind::kArray ? take_array_apart(reader, outer->count) : take_map_apart(reader, outer->count);
}

bool KvEventReader::take_array_apart(MsgpackReader& reader, std::uint32_t items) {
  if (items == 0) {
    (void)refuse("an event without a tag");
    return true;
  }
  const auto tag = reader.next_value();
  if (!tag) return false;
  if (tag->kind == Kind::kString) {
    tag_ = tag->text();
  } else {
    (void)refuse("an event without a tag");
  }
  const auto fields = positional_fields(tag_);
  for (std::uint32_t i = 0; i + 1 < items; ++i) {
    if (i < fields.size()) {
      if (!read_field(reader, fields[i])) return false;
      continue;
    }
    if (!reader.next_value()) return false;
    if (!fields.empty()) unknown_fields_.add(fmt::format("{}.{}", tag_, i + 1));
  }
  return true;
}

bool KvEventReader::take_map_apart(MsgpackReader& reader, std::uint32_t pairs) {
  for (std::uint32_t i = 0; i < pairs; ++i) {
    const auto name = reader.next_value();
    if (!name) return false;
    const bool is_string = name->kind == Kind::kString;
    const Field field = is_string ? field_of(name->text()) : kFieldCount;
    if (field != kFieldCount) {
      if (!read_field(reader, field)) return false;
      continue;
    }
    const auto value = reader.next_value();
    if (!value) return false;
    if (is_string && name->text() == "type" && value->kind == Kind::kString)
      tag_ = value->text();
    else
      unknown_fields_.add(is_string ? name->text() : FieldCounts::kOther);
  }
  if (tag_.empty()) (void)refuse("an event without a type");
  return true;
}

/// Publishers write a map's fields in one order. So the next field is nearly always the one that follows the last in
/// kNames.
KvEventReader::Field KvEventReader::field_of(std::string_view name) {
  if (next_name_ < kFieldCount && kNames[next_name_] == name) return static_cast<Field>(next_name_++);
  const auto* const found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return kFieldCount;
  next_name_ = static_cast<std::size_t>(found - kNames.begin()) + 1;
  return static_cast<Field>(next_name_ - 1);
}

bool KvEventReader::read_field(MsgpackReader& reader, Field field) {
  if (field == kBlockHashes) return read_hashes(reader);
  if (field == kTokenIds) return read_tokens(reader);
  const MsgpackReader start = reader;
  const auto token = reader.next_value();
  if (!token) return false;
  values_[field] = *token;
  seen_ |= 1U << field;
  if (field == kExtraKeys) extra_keys_ = start.until(reader);
  return true;
}

bool KvEventReader::read_hashes(MsgpackReader& reader) {
  hashes_.cut(hash_list_.begin);
  hash_list_ = {.begin = hash_list_.begin};
  MsgpackReader inside = reader;
  const auto list = inside.next();
  if (!list) return false;
  hash_list_.is_list = list->kind == Kind::kArray;
  if (!hash_list_.is_list) return reader.skip().has_value();
  // The reader refuses a list with more items than there are bytes left, so a short payload cannot claim much memory.
  const std::span<ExternalHash> hashes(hashes_.add(list->count), list->count);
  for (std::size_t read = 0; read < hashes.size();) {
    read += inside.next_u64s(hashes.subspan(read));
    if (read == hashes.size()) break;
    const auto token = inside.next();
    if (!token) return false;
    const auto hash = to_hash(*token);
    if (!hash) return reader.skip().has_value();
    hashes[read++] = *hash;
  }
  hash_list_.usable = true;
  reader = inside;
  return true;
}

bool KvEventReader::read_tokens(MsgpackReader& reader) {
  tokens_.cut(token_list_.begin);
  token_list_ = {.begin = token_list_.begin};
  MsgpackReader inside = reader;
  const auto list = inside.next();
  if (!list) return false;
  token_list_.is_list = list->kind == Kind::kArray;
  if (!token_list_.is_list) return reader.skip().has_value();
  const std::span<TokenId> tokens(tokens_.add(list->count), list->count);
  for (std::size_t read = 0; read < tokens.size();) {
    read += inside.next_u32s(tokens.subspan(read));
    if (read == tokens.size()) break;
    const auto token = inside.next();
    if (!token) return false;
    const auto id = to_u32(*token);
    if (!id) return reader.skip().has_value();
    tokens[read++] = TokenId(*id);
  }
  token_list_.usable = true;
  reader = inside;
  return true;
}

/// Removes from the batch's lists what was read for a field that this kind of event does not have.
bool KvEventReader::make(KvEventView& event) {
  event = {};
  if (tag_ == "BlockStored") return make_stored(event);
  tokens_.cut(token_list_.begin);
  if (tag_ == "BlockRemoved") return make_removed(event);
  hashes_.cut(hash_list_.begin);
  return tag_ == "AllBlocksCleared" || refuse("unknown");
}

bool KvEventReader::make_stored(KvEventView& event) {
  event.kind = KvEventView::Kind::kStored;
  if (!set_hashes(event)) return false;
  if (!token_list_.is_list) return refuse(kTokenIds, "a list");
  if (!token_list_.usable) return refuse(kTokenIds, "a list of 32-bit token ids");
  event.tokens = tokens_.values().subspan(token_list_.begin);
  if (!set_place(event)) return false;
  // Blocks of another medium may come without tokens, and then their size says nothing.
  const bool named_only = event.tokens.empty();
  const auto block_size = to_u32(value(kBlockSize));
  if (!block_size || (*block_size == 0 && !named_only)) return refuse(kBlockSize, "a positive number");
  event.block_size = *block_size;
  if (event.hashes.empty()) return refuse("BlockStored: no blocks");
  if (!named_only && std::uint64_t{event.hashes.size()} * *block_size != event.tokens.size()) return refuse("counts");
  if (value(kParentBlockHash).kind != Kind::kNil) {
    event.parent = to_hash(value(kParentBlockHash));
    if (!event.parent) return refuse(kParentBlockHash, "an integer, raw bytes or nil");
  }
  if (!set_lora(event)) return false;
  set_extra_keys(event);
  return true;
}

bool KvEventReader::make_removed(KvEventView& event) {
  event.kind = KvEventView::Kind::kRemoved;
  return set_hashes(event) && set_place(event);
}

bool KvEventReader::set_hashes(KvEventView& event) {
  if (!hash_list_.is_list) return refuse(kBlockHashes, "a list");
  if (!hash_list_.usable) return refuse(kBlockHashes, "a list of integers or raw bytes");
  event.hashes = hashes_.values().subspan(hash_list_.begin);
  return true;
}

/// Sets the medium and the group.
bool KvEventReader::set_place(KvEventView& event) {
  const auto medium = to_medium(value(kMedium));
  if (!medium) return refuse(kMedium, "a name");
  event.medium = *medium;
  if (value(kGroupIndex).kind == Kind::kNil) return true;
  const auto group = to_u32(value(kGroupIndex));
  if (!group) return refuse(kGroupIndex, "a group number");
  event.group = *group;
  return true;
}

/// Sets the LoRA's name. A number alone says that there is a LoRA but not which one; vLLM counts from 1, others send 0
/// for none.
bool KvEventReader::set_lora(KvEventView& event) {
  if (const MsgpackToken& name = value(kLoraName); name.kind != Kind::kNil) {
    if (name.kind != Kind::kString) return refuse(kLoraName, "a name");
    event.lora_name = name.text();
  }
  if (const MsgpackToken& id = value(kLoraId); event.lora_name.empty() && id.kind != Kind::kNil)
    event.other_extra_keys = id.kind != Kind::kUnsigned || id.integer != 0;
  return true;
}

/// Reads the keys of one block. vLLM lists the LoRA name, multimodal hashes with offsets, and with a prompt's first
/// block the cache salt. Only strings can be the LoRA name or the salt.
void set_block_keys(MsgpackReader& reader, bool starts_prompt, KvEventView& event) {
  MsgpackReader inside = reader;
  const auto entry = inside.next();
  if (!entry) return;
  if (entry->kind != Kind::kArray) {
    if (entry->kind != Kind::kNil) event.other_extra_keys = true;
    (void)reader.skip();
    return;
  }
  reader = inside;
  bool lora_seen = event.lora_name.empty();
  for (std::uint32_t i = 0; i < entry->count; ++i) {
    const MsgpackToken key = reader.next_value().value_or(MsgpackToken{});
    if (key.kind == Kind::kString && !lora_seen && key.text() == event.lora_name)
      lora_seen = true;
    else if (key.kind == Kind::kString && starts_prompt && event.cache_salt.empty())
      event.cache_salt = key.text();
    else if (key.kind != Kind::kNil)
      event.other_extra_keys = true;
  }
}

void KvEventReader::set_extra_keys(KvEventView& event) const {
  if (value(kExtraKeys).kind == Kind::kNil) return;
  MsgpackReader reader(extra_keys_);
  const auto list = reader.next();
  if (!list || list->kind != Kind::kArray) {
    event.other_extra_keys = true;
    return;
  }
  for (std::uint32_t block = 0; block < list->count; ++block)
    set_block_keys(reader, block == 0 && !event.parent, event);
}

}  // namespace kvist::kv
