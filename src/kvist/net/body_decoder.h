// Decodes the transfer encoding of an HTTP/1.1 body: takes bytes, returns pieces of the body. No I/O and no copy.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

namespace kvist::net {

/// Decodes a body in one of four framings. Lines of the chunked framing are read byte by byte, so nothing is held back
/// and chunks may be split anywhere. Chunk extensions and trailers are skipped, within bounds.
class BodyDecoder {
 public:
  [[nodiscard]] static BodyDecoder empty() { return BodyDecoder(State::kDone, 0); }
  [[nodiscard]] static BodyDecoder sized(std::uint64_t bytes) {
    return BodyDecoder(bytes == 0 ? State::kDone : State::kSized, bytes);
  }
  [[nodiscard]] static BodyDecoder chunked() { return BodyDecoder(State::kSizeFirst, 0); }
  [[nodiscard]] static BodyDecoder until_close() { return BodyDecoder(State::kUntilClose, 0); }

  enum class Step { kNeedMore, kPiece, kDone, kCorrupt };
  /// Removes bytes from the front of `input` until there is a piece of the body (a view into the original `input`), the
  /// end of the body, or no more input. Bytes after the end stay in `input`. Ensures: kDone and kCorrupt are final.
  [[nodiscard]] Step next(std::string_view& input, std::string_view& piece);

  [[nodiscard]] bool done() const { return state_ == State::kDone; }
  /// Whether the body ends properly if the peer closes the connection here.
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
  /// Counts a byte of a part that is skipped.
  void skip_one() {
    if (++skipped_ > kMaxSkippedBytes) state_ = State::kCorrupt;
  }

  // The bound on skipped bytes of a whole body, because a peer may send an extension with every chunk.
  static constexpr std::uint32_t kMaxSkippedBytes = 16U << 10;
  static constexpr std::uint64_t kMaxChunkBytes = std::numeric_limits<std::uint64_t>::max() >> 8;

  State state_;
  std::uint64_t left_;  // bytes of the sized body or of the current chunk
  std::uint32_t skipped_ = 0;
};

}  // namespace kvist::net
