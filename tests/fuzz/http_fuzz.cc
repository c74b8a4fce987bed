// fuzz: net
// Any peer's input: request heads, answer heads, and bodies in every framing. The same bytes cut at another place must
// mean the same, because the network cuts them anywhere.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kvist/base/check.h"
#include "kvist/net/body_decoder.h"
#include "kvist/net/http_head.h"

namespace {

using namespace kvist;
using net::BodyDecoder;

constexpr std::size_t kMaxHeadBytes = 4096;

/// The whole output of a body decoder for `bytes` in pieces of `piece_bytes`.
std::string decode(BodyDecoder decoder, std::string_view bytes, std::size_t piece_bytes) {
  std::string body;
  for (std::size_t at = 0; at < bytes.size(); at += piece_bytes) {
    std::string_view input = bytes.substr(at, piece_bytes);
    for (;;) {
      std::string_view piece;
      const BodyDecoder::Step step = decoder.next(input, piece);
      if (step == BodyDecoder::Step::kPiece) body += piece;
      if (step == BodyDecoder::Step::kDone) return body + "|done";
      if (step == BodyDecoder::Step::kCorrupt) return body + "|corrupt";
      if (step == BodyDecoder::Step::kNeedMore) break;
    }
    KVIST_CHECK(input.empty(), "a decoder that wants more has taken all");
  }
  return body + "|more";
}

void check_body(const BodyDecoder& decoder, std::string_view bytes) {
  const std::string whole = decode(decoder, bytes, std::max<std::size_t>(bytes.size(), 1));
  KVIST_CHECK(decode(decoder, bytes, 1) == whole, "another cut, another body");
  KVIST_CHECK(decode(decoder, bytes, 7) == whole, "another cut, another body");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  net::RequestHeadParser requests(kMaxHeadBytes);
  std::string_view rest = bytes;
  if (const auto head = requests.feed(rest); head && *head) {
    KVIST_CHECK(rest.size() < bytes.size(), "a head without bytes");
    KVIST_CHECK((*head)->request.target.find_first_of("\r\n") == std::string::npos, "a line break in a target");
    check_body((*head)->chunked ? BodyDecoder::chunked() : BodyDecoder::sized((*head)->content_length.value_or(0)),
               rest);
  }
  net::ResponseHeadParser answers(kMaxHeadBytes);
  answers.reset(false);
  rest = bytes;
  if (const auto head = answers.feed(rest); head && *head) check_body((*head)->body, rest);
  check_body(BodyDecoder::chunked(), bytes);
  return 0;
}
