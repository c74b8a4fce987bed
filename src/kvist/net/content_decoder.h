// Bodies that were compressed on their way (Content-Encoding), decompressed a bounded piece at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kvist/base/error.h"

namespace kvist::net {

enum class ContentCoding : std::uint8_t { kGzip, kDeflate, kZstd };

/// What `Content-Encoding` may say, as `Accept-Encoding` lists it.
inline constexpr std::string_view kContentCodings = "gzip, deflate, zstd";
/// The coding of that name; nothing for an unknown one, and for several in a row.
[[nodiscard]] std::optional<ContentCoding> content_coding(std::string_view name);

/// Decompresses one body. Both the output and the memory for it are bounded, whatever the input claims. Threads: one at
/// a time.
class ContentDecoder {
 public:
  /// `most_bytes`: of the output.
  ContentDecoder(ContentCoding coding, std::string input, std::uint64_t most_bytes);
  ~ContentDecoder();
  ContentDecoder(ContentDecoder&&) noexcept;
  ContentDecoder& operator=(ContentDecoder&&) noexcept;

  /// Decompresses on until all is done, which it returns, or about `budget` bytes more are. Errors: kCorrupt (not of
  /// that coding, damaged, or without its end), kTooLarge. Requires: neither the end nor an error was returned before.
  [[nodiscard]] Result<bool> run(std::size_t budget);
  /// Forgets what was decompressed and frees all but the input, so that a body that waits takes little; run() then
  /// begins anew.
  void restart();
  /// What was decompressed.
  [[nodiscard]] std::string take_output() { return std::move(output_); }
  [[nodiscard]] std::size_t output_bytes() const { return output_.size(); }
  /// The memory that it takes: input, output, and what the library keeps.
  [[nodiscard]] std::size_t held_bytes() const;

  /// The memory of a decoder beside input and output: windows of more than this are refused.
  static constexpr std::size_t kMostWindowBytes = 8UL << 20;

 private:
  class Stream;
  class ZlibStream;
  class ZstdStream;

  [[nodiscard]] static std::unique_ptr<Stream> open(ContentCoding coding);

  std::unique_ptr<Stream> stream_;  // null: not begun
  ContentCoding coding_;
  std::unique_ptr<const std::string> input_;  // does not move, as the next refers to it
  std::string_view rest_;
  std::string output_;
  std::uint64_t most_bytes_;
};

}  // namespace kvist::net
