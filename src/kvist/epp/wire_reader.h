// Protocol Buffers on the wire, read: https://protobuf.dev/programming-guides/encoding/.
#pragma once

#include <cstdint>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist::epp {

/// One field of a message. Of the values only the one that belongs to the type is set.
struct WireField {
  enum class Type : std::uint8_t { kVarint, kFixed64, kBytes, kFixed32 };

  std::uint32_t number = 0;
  Type type = Type::kVarint;
  std::uint64_t value = 0;      ///< of kVarint, kFixed64 and kFixed32
  std::string_view bytes = {};  ///< of kBytes: into the message

  /// Whether it is this field with a value of this type. One of another type is ignored, as an unknown field is.
  [[nodiscard]] bool is(std::uint32_t field, Type of_type) const { return number == field && type == of_type; }
  [[nodiscard]] bool is_bytes(std::uint32_t field) const { return is(field, Type::kBytes); }
  [[nodiscard]] bool is_varint(std::uint32_t field) const { return is(field, Type::kVarint); }
};

/// Goes through the fields of one message. It copies nothing, and needs as much time as the message has bytes, whatever
/// they are. Threads: one.
class WireReader {
 public:
  /// Requires: `message` outlives the fields that are read.
  explicit WireReader(std::string_view message) : rest_(message) {}

  /// Reads the next field; false at the end of the message. Errors: kCorrupt for what is no message, groups included,
  /// which the format does not use any more.
  [[nodiscard]] Result<bool> next(WireField& field);

 private:
  [[nodiscard]] Result<std::uint64_t> varint();
  [[nodiscard]] Result<std::uint64_t> fixed(std::size_t bytes);

  std::string_view rest_;
};

}  // namespace kvist::epp
