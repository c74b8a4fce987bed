// One KV event from msgpack, in any of the published forms. Private to the decoder.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kvist/kv/field_counts.h"
#include "kvist/kv/grow_buffer.h"
#include "kvist/kv/kv_event_view.h"
#include "kvist/kv/msgpack.h"

namespace kvist::kv {

/// Reads events one after the other and appends their hashes and tokens to the two lists of the batch. Threads: its
/// decoder's.
class KvEventReader {
 public:
  KvEventReader(GrowBuffer<ExternalHash>& hashes, GrowBuffer<TokenId>& tokens) : hashes_(hashes), tokens_(tokens) {}

  enum class Outcome : std::uint8_t {
    kUsed,
    kSkipped,  ///< problem() says why
    kBroken,   ///< the bytes end early or are not msgpack
  };
  /// Reads a tagged array or a tagged map, and skips any other msgpack value. Ensures: the lists of a used event have
  /// the right length. The caller sets where they begin after the last event, because lists move while they grow.
  [[nodiscard]] Outcome read(MsgpackReader& reader, KvEventView& event);

  // About the event of the last read().
  /// Fields that kvist does not use.
  [[nodiscard]] const FieldCounts& unknown_fields() const { return unknown_fields_; }
  /// Which event and which field cannot be used, and why.
  [[nodiscard]] std::string problem() const;

 private:
  /// The fields of all kinds of events, in the order of BlockStored's positional form.
  enum Field : std::uint8_t {
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
  static const std::array<std::string_view, kFieldCount> kNames;

  [[nodiscard]] static std::span<const Field> positional_fields(std::string_view tag);
  // These return false if the bytes are broken.
  [[nodiscard]] bool take_apart(MsgpackReader& reader);
  [[nodiscard]] bool take_array_apart(MsgpackReader& reader, std::uint32_t items);
  [[nodiscard]] bool take_map_apart(MsgpackReader& reader, std::uint32_t pairs);
  [[nodiscard]] Field field_of(std::string_view name);
  [[nodiscard]] bool read_field(MsgpackReader& reader, Field field);
  [[nodiscard]] bool read_hashes(MsgpackReader& reader);
  [[nodiscard]] bool read_tokens(MsgpackReader& reader);
  // These return false if the event cannot be used, and note why.
  [[nodiscard]] bool make(KvEventView& event);
  [[nodiscard]] bool make_stored(KvEventView& event);
  [[nodiscard]] bool make_removed(KvEventView& event);
  [[nodiscard]] bool set_hashes(KvEventView& event);
  [[nodiscard]] bool set_place(KvEventView& event);
  [[nodiscard]] bool set_lora(KvEventView& event);
  void set_extra_keys(KvEventView& event) const;
  bool refuse(Field field, std::string_view want);
  bool refuse(std::string_view what);

  [[nodiscard]] const MsgpackToken& value(Field field) const {
    static constexpr MsgpackToken kNil;
    return (seen_ >> field & 1U) != 0 ? values_[field] : kNil;
  }

  /// A list of the event. Its values are the last ones in the batch's list, from `begin` on.
  struct List {
    bool usable = false;   // all its items were understood
    bool is_list = false;  // the field has a list at all
    std::size_t begin = 0;
  };

  GrowBuffer<ExternalHash>& hashes_;
  GrowBuffer<TokenId>& tokens_;
  std::string_view tag_;
  List hash_list_;
  List token_list_;
  std::uint32_t seen_ = 0;                        // fields of values_ that the event has
  std::array<MsgpackToken, kFieldCount> values_;  // the first item of each value; not of the two lists
  std::span<const std::uint8_t> extra_keys_;      // the whole value
  std::size_t next_name_ = 0;                     // where in kNames the name of a map's next field is expected
  FieldCounts unknown_fields_;
  // Why the event is skipped: a field and what it should be, or a text alone.
  std::optional<Field> bad_field_;
  std::string_view complaint_;
};

}  // namespace kvist::kv
