// Compressed bodies: what the libraries compress comes back, and nothing that is sent takes more than its bound.
#include "kvist/net/content_decoder.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "kvist/base/random.h"
#include "net/compressed.h"

namespace kvist::net::content_decoder_test {
namespace {

constexpr std::uint64_t kMost = 1U << 20;
constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

/// In pieces of `budget`.
Result<std::string> decoded(ContentCoding coding, std::string body, std::size_t budget = kAll,
                            std::uint64_t most = kMost) {
  ContentDecoder decoder(coding, std::move(body), most);
  for (;;) {
    KVIST_TRY(const bool done, decoder.run(budget));
    EXPECT_LE(decoder.output_bytes(), most);
    if (done) return decoder.take_output();
  }
}

TEST(ContentDecoder, GivesBackWhatWasCompressed) {
  const std::uint64_t seed = 5;
  SCOPED_TRACE(seed);
  RandomStream random(seed);
  for (int i = 0; i < 60; ++i) {
    std::string text;
    const auto size = static_cast<std::size_t>(random.uniform_int(0, i % 3 == 0 ? 300'000 : 300));
    const std::int64_t letters = random.uniform_int(1, 256);
    while (text.size() < size) text += static_cast<char>(random.uniform_int(0, letters - 1));
    for (const ContentCoding coding : kCodings) {
      const std::string body = compressed(text, coding, static_cast<int>(random.uniform_int(1, 9)));
      const auto budget = static_cast<std::size_t>(random.uniform_int(1, 200'000));
      const Result<std::string> back = decoded(coding, body, budget);
      ASSERT_TRUE(back) << back.error().message;
      EXPECT_EQ(*back, text);
      // Cut anywhere, it is an error and no shorter body.
      const auto cut = static_cast<std::size_t>(random.uniform_int(0, static_cast<std::int64_t>(body.size()) - 1));
      const Result<std::string> less = decoded(coding, body.substr(0, cut), budget);
      EXPECT_FALSE(less.has_value()) << cut << " of " << body.size();
      // Whatever is damaged, nothing is read or written beyond the bounds.
      std::string damaged = body;
      damaged[static_cast<std::size_t>(random.uniform_int(0, static_cast<std::int64_t>(body.size()) - 1))] ^=
          static_cast<char>(random.uniform_int(1, 255));
      (void)decoded(coding, damaged, budget);
    }
  }
}

TEST(ContentDecoder, TakesSeveralMembersAndFrames) {
  EXPECT_EQ(
      *decoded(ContentCoding::kGzip, compressed("ab", ContentCoding::kGzip) + compressed("", ContentCoding::kGzip) +
                                         compressed("c", ContentCoding::kGzip)),
      "abc");
  EXPECT_EQ(*decoded(ContentCoding::kZstd, zstd_of("ab") + zstd_of("c")), "abc");
  for (const ContentCoding coding : kCodings) {
    const Result<std::string> more = decoded(coding, compressed("ab", coding) + "x");
    EXPECT_FALSE(more.has_value()) << "something that is none of it follows";
  }
}

TEST(ContentDecoder, StopsBombsAtTheBound) {
  const std::string zeros(64U << 20, '\0');
  for (const ContentCoding coding : kCodings) {
    const std::string bomb = compressed(zeros, coding);
    EXPECT_LT(bomb.size(), zeros.size() / 500);
    const Result<std::string> body = decoded(coding, bomb, 10'000);
    ASSERT_FALSE(body);
    EXPECT_EQ(body.error().code, ErrorCode::kTooLarge);
    EXPECT_EQ(decoded(coding, compressed(zeros.substr(0, kMost), coding))->size(), kMost)
        << "the bound itself is no bomb";
  }
}

TEST(ContentDecoder, RefusesWindowsThatTakeMuchMemory) {
  ZSTD_CCtx* const context = ::ZSTD_createCCtx();
  ::ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, 26);
  ::ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  const std::string text(100, 'a');
  std::string out(1'000, '\0');
  ZSTD_outBuffer to{.dst = out.data(), .size = out.size(), .pos = 0};
  ZSTD_inBuffer from{.src = text.data(), .size = text.size(), .pos = 0};
  EXPECT_FALSE(::ZSTD_isError(::ZSTD_compressStream2(context, &to, &from, ZSTD_e_continue)));
  EXPECT_FALSE(::ZSTD_isError(::ZSTD_compressStream2(context, &to, &from, ZSTD_e_end)));
  ::ZSTD_freeCCtx(context);
  out.resize(to.pos);
  const Result<std::string> body = decoded(ContentCoding::kZstd, out);
  ASSERT_FALSE(body);
  EXPECT_EQ(body.error().code, ErrorCode::kCorrupt);
}

TEST(ContentDecoder, KnowsTheCodingsByName) {
  EXPECT_EQ(content_coding("GZIP"), ContentCoding::kGzip);
  EXPECT_EQ(content_coding("x-gzip"), ContentCoding::kGzip);
  EXPECT_EQ(content_coding("zstd"), ContentCoding::kZstd);
  EXPECT_EQ(content_coding("deflate"), ContentCoding::kDeflate);
  EXPECT_EQ(content_coding("br"), std::nullopt);
  EXPECT_EQ(content_coding("gzip, zstd"), std::nullopt);
}

}  // namespace
}  // namespace kvist::net::content_decoder_test
