#include "kvist/net/body_decoder.h"

#include <algorithm>

namespace kvist::net {

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

BodyDecoder::Step BodyDecoder::next(std::string_view& input, std::string_view& piece) {
  while (true) {
    if (state_ == State::kDone) return Step::kDone;
    if (state_ == State::kCorrupt) return Step::kCorrupt;
    if (input.empty()) return Step::kNeedMore;
    if (state_ == State::kUntilClose) {
      piece = input;
      input = {};
      return Step::kPiece;
    }
    if (state_ == State::kSized || state_ == State::kChunk) {
      piece = input.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(left_, input.size())));
      input.remove_prefix(piece.size());
      left_ -= piece.size();
      if (left_ == 0) state_ = state_ == State::kSized ? State::kDone : State::kChunkCr;
      return Step::kPiece;
    }
    take_framing(input.front());
    input.remove_prefix(1);
  }
}

void BodyDecoder::take_framing(char c) {
  switch (state_) {
    case State::kSizeFirst:
    case State::kSize:
    case State::kExtension:
      return take_size(c);
    case State::kSizeLf:
      return expect(c, '\n', left_ == 0 ? State::kTrailerFirst : State::kChunk);
    case State::kChunkCr:
      return expect(c, '\r', State::kChunkLf);
    case State::kChunkLf:
      return expect(c, '\n', State::kSizeFirst);
    default:
      return take_trailer(c);
  }
}

void BodyDecoder::take_size(char c) {
  if (state_ == State::kExtension) {
    if (c == '\r') {
      state_ = State::kSizeLf;
    } else if (c == '\n') {
      state_ = State::kCorrupt;
    } else {
      skip_one();
    }
    return;
  }
  const int digit = hex_digit(c);
  if (digit >= 0) {
    left_ = state_ == State::kSizeFirst ? 0 : left_;
    left_ = left_ * 16 + static_cast<std::uint64_t>(digit);
    state_ = left_ > kMaxChunkBytes ? State::kCorrupt : State::kSize;
    return;
  }
  if (state_ == State::kSizeFirst) {
    state_ = State::kCorrupt;
  } else if (c == '\r') {
    state_ = State::kSizeLf;
  } else {
    state_ = c == ';' || c == ' ' || c == '\t' ? State::kExtension : State::kCorrupt;
  }
}

void BodyDecoder::take_trailer(char c) {
  switch (state_) {
    case State::kTrailerFirst:
      if (c == '\r') {
        state_ = State::kEndLf;
        return;
      }
      state_ = State::kTrailer;
      [[fallthrough]];
    case State::kTrailer:
      if (c == '\r') {
        state_ = State::kTrailerLf;
      } else if (c == '\n') {
        state_ = State::kCorrupt;
      } else {
        skip_one();
      }
      return;
    case State::kTrailerLf:
      return expect(c, '\n', State::kTrailerFirst);
    default:  // kEndLf
      return expect(c, '\n', State::kDone);
  }
}

}  // namespace kvist::net
