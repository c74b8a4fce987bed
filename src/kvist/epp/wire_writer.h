// Protocol Buffers on the wire, written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace kvist::epp {

/// Appends fields to one message. What has its default value is not left out: the caller decides. Threads: one.
class WireWriter {
 public:
  void varint(std::uint32_t field, std::uint64_t value);
  void bytes(std::uint32_t field, std::string_view value);
  /// A message within this one.
  void message(std::uint32_t field, const WireWriter& value) { bytes(field, value.out_); }
  [[nodiscard]] std::string take() && { return std::move(out_); }

 private:
  void append(std::uint64_t value);

  std::string out_;
};

}  // namespace kvist::epp
