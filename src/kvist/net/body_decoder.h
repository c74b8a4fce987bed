// Takes the transfer encoding off an HTTP/1.1 body: bytes in, body pieces out, no I/O and no copy.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

namespace kvist::net {

/// Decodes one body of one of four framings. Lines of the chunked framing are taken byte by byte, so nothing is ever
/// held back and a chunk may be split anywhere. Chunk extensions and trailers are skipped, within bounds.
class BodyDecoder {
 public:
  [[nodiscard]] static BodyDecoder empty() { return BodyDecoder(State::kDone, 0); }
  [[nodiscard]] static BodyDecoder sized(std::uint64_t bytes) {
    return BodyDecoder(bytes == 0 ? State::kDone : State::kSized, bytes);
  }
  [[nodiscard]] static BodyDecoder chunked() { return BodyDecoder(State::kSizeFirst, 0); }
  [[nodiscard]] static BodyDecoder until_close() { return BodyDecoder(State::kUntilClose, 0); }

  enum class Step { kNeedMore, kPiece, kDone, kCorrupt };
  /// Takes bytes from the front of `input` until there is a piece of the body (a view into `input` as it was), the end,
  /// or no more input. Bytes behind the end stay in `input`.
  [[nodiscard]] Step next(std::string_view& input, std::string_view& piece);

  [[nodiscard]] bool done() const { return state_ == State::kDone; }
  /// Whether the peer's closing here is the proper end of the body.
  [[nodiscard]] bool may_close() const { return state_ == State::kUntilClose || state_ == State::kDone; }

 private:
  enum class State {
    kSized,
    kUntilClose,
    kSizeFirst,  // first digit of a chunk size
    kSize,
    kExtension,
    kSizeLf,
    kChunk,
    kChunkCr,
    kChunkLf,
    kTrailerFirst,  // first byte of a trailer line, or of the empty line that ends the body
    kTrailer,
    kTrailerLf,
    kEndLf,
    kDone,
    kCorrupt,
  };
  BodyDecoder(State state, std::uint64_t left) : state_(state), left_(left) {}

  void take_framing(char c);
  void take_size(char c);
  void take_trailer(char c);
  void expect(char c, char wanted, State then) { state_ = c == wanted ? then : State::kCorrupt; }
  /// Counts a byte of the parts nobody needs.
  void skip_one() {
    if (++skipped_ > kMaxSkippedBytes) state_ = State::kCorrupt;
  }

  // A peer may send an extension with every chunk; over the whole body they stay below this.
  static constexpr std::uint32_t kMaxSkippedBytes = 16U << 10;
  static constexpr std::uint64_t kMaxChunkBytes = std::numeric_limits<std::uint64_t>::max() >> 8;

  State state_;
  std::uint64_t left_;  // bytes of the sized body or of the current chunk
  std::uint32_t skipped_ = 0;
};

}  // namespace kvist::net
