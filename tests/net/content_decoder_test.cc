// Compressed bodies: what the libraries compress comes back, and nothing that is sent takes more than its bound.
#include "kvist/net/content_decoder.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <limits>
#include <vector>

#include "kvist/base/random.h"
#include "net/http_server_fixture.h"

namespace kvist::net {
namespace {

constexpr std::uint64_t kMost = 1U << 20;
constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

std::string zlib_of(std::string_view text, ContentCoding coding, int level = 6) {
  z_stream zlib{};
  const int bits = MAX_WBITS + (coding == ContentCoding::kGzip ? 16 : 0);
  EXPECT_EQ(::deflateInit2(&zlib, level, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(::deflateBound(&zlib, text.size()), '\0');
  std::string in(text);
  zlib.next_in = reinterpret_cast<Bytef*>(in.data());
  zlib.avail_in = static_cast<uInt>(in.size());
  zlib.next_out = reinterpret_cast<Bytef*>(out.data());
  zlib.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::deflate(&zlib, Z_FINISH), Z_STREAM_END);
  out.resize(zlib.total_out);
  ::deflateEnd(&zlib);
  return out;
}

std::string zstd_of(std::string_view text, int level = 3) {
  std::string out(::ZSTD_compressBound(text.size()), '\0');
  out.resize(::ZSTD_compress(out.data(), out.size(), text.data(), text.size(), level));
  return out;
}

std::string compressed(std::string_view text, ContentCoding coding, int level = 6) {
  return coding == ContentCoding::kZstd ? zstd_of(text, level) : zlib_of(text, coding, level);
}

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

constexpr ContentCoding kCodings[] = {ContentCoding::kGzip, ContentCoding::kDeflate, ContentCoding::kZstd};

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

std::string post(std::string_view coding, std::string_view body) {
  return "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Encoding: " + std::string(coding) +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

class CompressedBodies : public HttpServerTest {};

TEST_F(CompressedBodies, ReachTheServiceAsTheyWere) {
  listen({});
  // The last is decompressed on another thread.
  for (const std::string& text : {std::string("hello"), std::string(200'000, 'x'), std::string(9'000'000, 'y')}) {
    RawSocket socket = connect();
    for (const auto& [name, coding] :
         {std::pair("gzip", kCodings[0]), {"Deflate", kCodings[1]}, {"zstd", kCodings[2]}}) {
      // With the next request behind it, on one connection.
      ASSERT_TRUE(socket.send(post(name, compressed(text, coding)) + post("identity", "plain")));
      EXPECT_TRUE(read_answer(socket).ends_with("POST /echo " + text)) << name << " " << text.size();
      EXPECT_TRUE(read_answer(socket).ends_with("POST /echo plain"));
    }
  }
}

TEST_F(CompressedBodies, AreNoLongerSaidToBeCompressed) {
  listen({});
  RawSocket socket = connect();
  std::string request = post("gzip", compressed("abc", ContentCoding::kGzip));
  request.replace(request.find("/echo"), 5, "/held");
  ASSERT_TRUE(socket.send(request));
  ASSERT_TRUE(wait_held(1));
  EXPECT_EQ(thread_.run([&] { return held_.front().request.body; }), "abc");
  for (const char* name : {"Content-Encoding", "Content-Length"})
    EXPECT_FALSE(thread_.run([&] { return held_.front().request.headers.find(name).has_value(); })) << name;
}

TEST_F(CompressedBodies, AreBoundedAsTheyAreWhenDecompressed) {
  listen({.max_body_bytes = 2U << 20});
  for (const ContentCoding coding : kCodings) {
    const char* const name = coding == ContentCoding::kGzip   ? "gzip"
                             : coding == ContentCoding::kZstd ? "zstd"
                                                              : "deflate";
    RawSocket socket = connect();
    ASSERT_TRUE(socket.send(post(name, compressed(std::string((2U << 20) + 1, 'x'), coding))));
    EXPECT_TRUE(read_answer(socket).starts_with("HTTP/1.1 413 "));
    RawSocket fits = connect();
    ASSERT_TRUE(fits.send(post(name, compressed(std::string(2U << 20, 'x'), coding))));
    EXPECT_TRUE(read_answer(fits).starts_with("HTTP/1.1 200 "));
  }
}

TEST_F(CompressedBodies, OfOtherKindsAreRefusedWithTheListOfThose) {
  listen({});
  for (const char* coding : {"br", "gzip, zstd", "compress", "gzip\r\nContent-Encoding: gzip"}) {
    RawSocket socket = connect();
    ASSERT_TRUE(socket.send(post(coding, "abc")));
    const std::string answer = read_answer(socket);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 415 ")) << answer;
    EXPECT_TRUE(answer.contains("Accept-Encoding: gzip, deflate, zstd\r\n")) << answer;
  }
  RawSocket damaged = connect();
  ASSERT_TRUE(damaged.send(post("gzip", "no gzip")));
  const std::string answer = read_answer(damaged);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 400 ") && answer.contains("the body is not valid gzip")) << answer;
}

TEST_F(CompressedBodies, MayBeLeftBehindByTheirClients) {
  listen({});
  for (int i = 0; i < 20; ++i) {
    RawSocket socket = connect();
    ASSERT_TRUE(socket.send(post("gzip", compressed(std::string(12'000'000, 'z'), ContentCoding::kGzip, 1))));
  }
  RawSocket socket = connect();
  ASSERT_TRUE(socket.send(post("identity", "plain")));
  EXPECT_TRUE(read_answer(socket).ends_with("POST /echo plain"));
}

}  // namespace
}  // namespace kvist::net
