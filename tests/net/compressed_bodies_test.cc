// Compressed bodies of requests: what a service gets of them, and what they take meanwhile.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "kvist/net/body_budget.h"
#include "kvist/net/body_decompressor.h"
#include "net/compressed.h"
#include "net/http_server_fixture.h"

namespace kvist::net::compressed_bodies_test {
namespace {

constexpr std::uint64_t kMost = 64U << 20;

TEST(BodyShare, HasAPartOfTheBudgetUntilItsEnd) {
  const auto budget = std::make_shared<BodyBudget>(10);
  {
    BodyShare first(budget);
    BodyShare second(budget);
    EXPECT_TRUE(first.resize(6));
    EXPECT_FALSE(second.resize(5));
    EXPECT_EQ(second.bytes(), 0U);
    EXPECT_TRUE(second.resize(4));
    EXPECT_TRUE(first.resize(2));
    EXPECT_EQ(budget->used(), 6U);
    BodyShare moved(std::move(first));
    EXPECT_EQ(moved.bytes(), 2U);
    second = std::move(moved);
    EXPECT_EQ(second.bytes(), 2U);
    second.clear();
    EXPECT_TRUE(second.resize(10));
    const BodyShare all = second.hand_over();
    EXPECT_EQ(all.bytes(), 10U);
    EXPECT_EQ(second.bytes(), 0U);
    EXPECT_FALSE(second.resize(1));
  }
  EXPECT_EQ(budget->used(), 0U);
}

std::string compressed_letters(std::size_t size, ContentCoding coding = ContentCoding::kGzip) {
  return compressed(std::string(size, 'x'), coding, 1);
}

/// A body with as much of the budget as its bytes.
CompressedBody body_of(const std::shared_ptr<BodyBudget>& budget, std::string bytes,
                       ContentCoding coding = ContentCoding::kGzip) {
  BodyShare share(budget);
  EXPECT_TRUE(share.resize(bytes.size()));
  return {.decoder = ContentDecoder(coding, std::move(bytes), kMost), .share = std::move(share)};
}

TEST(Decompress, CountsWhatTheBodyTakesAtEachMoment) {
  for (const ContentCoding coding : kCodings) {
    constexpr std::size_t kSize = 3U << 20;
    const auto budget = std::make_shared<BodyBudget>(kMost);
    CompressedBody body = body_of(budget, compressed_letters(kSize, coding), coding);
    std::uint64_t before = 0;
    int pieces = 0;
    const auto text = decompress(body, [&] {
      EXPECT_GT(budget->used(), before);
      EXPECT_LE(budget->used(), kSize + ContentDecoder::kMostWindowBytes + (1U << 20));
      before = budget->used();
      ++pieces;
      return true;
    });
    ASSERT_TRUE(text && *text);
    EXPECT_EQ(text->value().size(), kSize);
    EXPECT_GE(pieces, 8);
    EXPECT_EQ(budget->used(), kSize);
  }
}

TEST(Decompress, StopsWhereTheBudgetEnds) {
  const auto budget = std::make_shared<BodyBudget>(1U << 20);
  CompressedBody body = body_of(budget, compressed_letters(40U << 20));
  int pieces = 0;
  const auto text = decompress(body, [&] { return ++pieces > 0; });
  ASSERT_TRUE(text.has_value());
  ASSERT_FALSE(text->has_value());
  EXPECT_EQ(text->error().code, ErrorCode::kResourceExhausted);
  EXPECT_LE(pieces, 8);
}

TEST(Decompress, StopsAtTheNextPieceOfWhatNobodyWants) {
  const auto budget = std::make_shared<BodyBudget>(kMost);
  CompressedBody body = body_of(budget, compressed_letters(40U << 20));
  int pieces = 0;
  EXPECT_FALSE(decompress(body, [&] { return ++pieces <= 2; }).has_value());
  EXPECT_EQ(pieces, 3);
  EXPECT_LE(body.decoder.output_bytes(), 1U << 20);
}

class BodyDecompressorTest : public testing::Test {
 protected:
  ~BodyDecompressorTest() override {
    thread_.run([this] { decompressor_.reset(); });
  }
  std::optional<BodyDecompressor::Ticket> submit(const std::string& bytes) {
    return decompressor_->submit(thread_.loop().impl(), body_of(budget_, bytes),
                                 [this](const Result<std::string>& body, const BodyShare& share) {
                                   ASSERT_TRUE(body);
                                   EXPECT_EQ(share.bytes(), body->size());
                                   sizes_.push_back(body->size());
                                 });
  }

  LoopThread thread_;
  std::shared_ptr<BodyBudget> budget_ = std::make_shared<BodyBudget>(4 * kMost);
  std::unique_ptr<BodyDecompressor> decompressor_ = std::make_unique<BodyDecompressor>();
  std::vector<std::size_t> sizes_;
};

// As many as may wait, each of which might grow to the size of the whole budget.
TEST_F(BodyDecompressorTest, BodiesThatWaitTakeWhatCame) {
  constexpr std::size_t kSize = 300U << 10;
  std::vector<std::string> bodies;
  for (std::size_t i = 0; i < BodyDecompressor::kMaxWaiting; ++i) bodies.push_back(compressed_letters(kSize + i));
  thread_.run([&] {
    for (const std::string& body : bodies) EXPECT_TRUE(submit(body));
  });
  ASSERT_TRUE(thread_.wait([&] { return sizes_.size() == BodyDecompressor::kMaxWaiting; }));
  for (std::size_t i = 0; i < sizes_.size(); ++i) EXPECT_EQ(sizes_[i], kSize + i);
  EXPECT_TRUE(thread_.wait([&] { return budget_->used() == 0; }));
}

TEST_F(BodyDecompressorTest, AbandonedBodiesMakeRoom) {
  const std::string large = compressed_letters(40U << 20);
  const std::string small = compressed_letters(1000);
  thread_.run([&] {
    std::vector<BodyDecompressor::Ticket> tickets;
    while (const auto ticket = submit(large)) tickets.push_back(*ticket);
    EXPECT_GE(tickets.size(), BodyDecompressor::kMaxWaiting);
    for (const BodyDecompressor::Ticket ticket : tickets) decompressor_->abandon(ticket);
    EXPECT_TRUE(submit(small));
  });
  ASSERT_TRUE(thread_.wait([&] { return !sizes_.empty() && sizes_.back() == 1000; }));
  EXPECT_LT(sizes_.size(), BodyDecompressor::kMaxWaiting);
  EXPECT_TRUE(thread_.wait([&] { return budget_->used() == 0; }));
}

std::string post(std::string_view coding, std::string_view body) {
  return "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Encoding: " + std::string(coding) +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

class CompressedBodies : public HttpServerTest {};

// Only who may send a body is told what is wrong with it, and a page that may send one can read that.
TEST_F(CompressedBodies, AreJudgedAfterTheirSenders) {
  listen({.max_body_bytes = 1000,
          .before_body = [](const HttpRequest& head) -> std::optional<HttpResponse> {
            if (head.headers.find("Authorization")) return std::nullopt;
            return HttpResponse{.status = 401, .headers = {}, .body = {}};
          },
          .browsers = BrowserPolicy{.origins = {"https://chat.example"}}});
  const std::string page = "Origin: https://chat.example\r\n";
  const auto ask = [&](const std::string& fields, std::string_view coding, std::string_view body) {
    std::string request = post(coding, body);
    request.insert(request.find("Host: "), fields);
    RawSocket socket = connect();
    EXPECT_TRUE(socket.send(request));
    return read_answer(socket);
  };
  const std::string too_large(1001, 'x');
  const std::vector<std::tuple<std::string, std::string, std::string>> cases = {
      {"br", "abc", "415"},
      {"identity", too_large, "413"},
      {"gzip", compressed(too_large, ContentCoding::kGzip), "413"},
      {"gzip", "no gzip", "400"},
      {"gzip", compressed("abc", ContentCoding::kGzip), "200"}};
  for (const auto& [coding, body, status] : cases) {
    EXPECT_TRUE(ask(page, coding, body).starts_with("HTTP/1.1 401 ")) << coding << " " << status;
    const std::string answer = ask(page + "Authorization: a\r\n", coding, body);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 " + status)) << answer;
    EXPECT_TRUE(answer.contains("Access-Control-Allow-Origin: https://chat.example\r\n")) << answer;
    EXPECT_FALSE(ask("Authorization: a\r\n", coding, body).contains("Access-Control-")) << coding;
    EXPECT_TRUE(ask("Authorization: a\r\nOrigin: https://evil.example\r\n", coding, body).starts_with("HTTP/1.1 403 "));
  }
}

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
  const std::string large = compressed(std::string(12'000'000, 'z'), ContentCoding::kGzip, 1);
  for (int i = 0; i < 20; ++i) {
    RawSocket socket = connect();
    ASSERT_TRUE(socket.send(post("gzip", large)));
  }
  RawSocket socket = connect();
  ASSERT_TRUE(socket.send(post("identity", "plain")));
  EXPECT_TRUE(read_answer(socket).ends_with("POST /echo plain"));
}

// More than may wait, whose clients then leave.
TEST_F(CompressedBodies, ThatTheirClientsLeftBehindTakeNoPlace) {
  listen({.max_body_bytes = 64U << 20});
  const std::string large = post("gzip", compressed(std::string(60U << 20, 'z'), ContentCoding::kGzip, 1));
  {
    std::vector<RawSocket> left;
    for (std::size_t i = 0; i < BodyDecompressor::kMaxWaiting + 10; ++i) {
      left.push_back(connect());
      ASSERT_TRUE(left.back().send(large));
    }
  }
  ASSERT_TRUE(thread_.wait([&] { return server_->connections() == 0; }));
  const std::string text(1U << 20, 'x');
  RawSocket socket = connect();
  ASSERT_TRUE(socket.send(post("gzip", compressed(text, ContentCoding::kGzip))));
  EXPECT_TRUE(read_answer(socket).ends_with("POST /echo " + text));
}

// All arrive while the loop is held up, so they are there together: small ones, beside a bound for two of the greatest
// size.
TEST_F(CompressedBodies, TakeNoMoreThanTheyHave) {
  listen({.max_body_bytes = 4U << 20, .max_bodies_bytes = 8U << 20});
  const std::string text(300U << 10, 'x');
  const std::string request = post("zstd", compressed(text, ContentCoding::kZstd));
  std::vector<RawSocket> sockets;
  for (int i = 0; i < 16; ++i) {
    sockets.push_back(connect());
    ASSERT_TRUE(sockets.back().send(request.substr(0, request.size() - 1)));
  }
  ASSERT_TRUE(thread_.wait([&] { return server_->connections() == sockets.size(); }));
  thread_.run([&] {
    for (RawSocket& socket : sockets) ASSERT_TRUE(socket.send(request.substr(request.size() - 1)));
  });
  for (RawSocket& socket : sockets) EXPECT_TRUE(read_answer(socket).ends_with("POST /echo " + text));
}

}  // namespace
}  // namespace kvist::net::compressed_bodies_test
