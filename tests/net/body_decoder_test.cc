#include "kvist/net/body_decoder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvist::net::body_decoder_test {
namespace {

struct Decoded {
  std::string body;
  BodyDecoder::Step end = BodyDecoder::Step::kNeedMore;
  std::string rest;
};

Decoded decode(BodyDecoder decoder, const std::vector<std::string_view>& parts) {
  Decoded out;
  for (std::string_view part : parts) {
    std::string_view piece;
    while ((out.end = decoder.next(part, piece)) == BodyDecoder::Step::kPiece) out.body += piece;
    out.rest += part;
  }
  return out;
}

constexpr std::string_view kChunked = "4;a=\"b\"\r\nabcd\r\n00a\r\n0123456789\r\n0;x\r\nTrailer: y\r\nZ:\r\n\r\nNEXT";

TEST(BodyDecoder, DecodesChunksWhereverTheyAreSplit) {
  for (std::size_t first = 0; first <= kChunked.size(); ++first) {
    for (std::size_t second = first; second <= kChunked.size(); ++second) {
      const Decoded decoded =
          decode(BodyDecoder::chunked(),
                 {kChunked.substr(0, first), kChunked.substr(first, second - first), kChunked.substr(second)});
      ASSERT_EQ(decoded.body, "abcd0123456789") << first << " " << second;
      ASSERT_EQ(decoded.end, BodyDecoder::Step::kDone) << first << " " << second;
      ASSERT_EQ(decoded.rest, "NEXT") << first << " " << second;
    }
  }
}

TEST(BodyDecoder, ASizedBodyLeavesWhatFollows) {
  const Decoded decoded = decode(BodyDecoder::sized(5), {"abc", "defg"});
  EXPECT_EQ(decoded.body, "abcde");
  EXPECT_EQ(decoded.end, BodyDecoder::Step::kDone);
  EXPECT_EQ(decoded.rest, "fg");
  EXPECT_TRUE(BodyDecoder::sized(0).done());
  EXPECT_FALSE(BodyDecoder::sized(1).may_close());
}

TEST(BodyDecoder, ABodyUntilCloseTakesEverything) {
  BodyDecoder decoder = BodyDecoder::until_close();
  EXPECT_TRUE(decoder.may_close());
  const Decoded decoded = decode(decoder, {"abc", "0\r\n\r\n"});
  EXPECT_EQ(decoded.body, "abc0\r\n\r\n");
  EXPECT_EQ(decoded.end, BodyDecoder::Step::kNeedMore);
}

TEST(BodyDecoder, RefusesMalformedChunks) {
  for (const char* text : {"\r\n", "g\r\n", "-1\r\n", " 1\r\na\r\n", "1\na\r\n", "1\r\nab", "1\r\na\n", "1\ra",
                           "0x1\r\n", "ffffffffffffffff\r\n", "1;ext\na\r\n", "0\r\nX: y\n\r\n", "0\r\n\rX"}) {
    EXPECT_EQ(decode(BodyDecoder::chunked(), {text}).end, BodyDecoder::Step::kCorrupt) << text;
  }
}

TEST(BodyDecoder, BoundsExtensionsAndTrailers) {
  EXPECT_EQ(decode(BodyDecoder::chunked(), {"1;" + std::string(20'000, 'x')}).end, BodyDecoder::Step::kCorrupt);
  EXPECT_EQ(decode(BodyDecoder::chunked(), {"0\r\n" + std::string(20'000, 'x')}).end, BodyDecoder::Step::kCorrupt);
}

}  // namespace
}  // namespace kvist::net::body_decoder_test
