// How long what a client reads had been in this machine, by the system's stamps of packets. A loop that is held up on
// purpose makes times that are known: what was sent before it was let go is at least as old as that.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "kvist/net/run_queue.h"
#include "net/http_client_fixture.h"

namespace kvist::net::piece_age_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class PieceAgeTest : public HttpClientTest {
 protected:
  struct Piece {
    std::string data;
    TimePoint read;
    PieceAge last, all;
  };

  PieceAgeTest() { make_client({.stamp_reads = true}); }
  /// The call ends before what its handlers write into.
  ~PieceAgeTest() override {
    thread_.run([this] { calls_.clear(); });
  }

  void begin_answer() {
    CallHandlers handlers;
    handlers.on_sent = [this](TimePoint) { longest_send_ = calls_.front()->longest_send(); };
    handlers.on_body = [this](std::string_view data, TimePoint at) {
      pieces_.push_back({.data = std::string(data),
                         .read = at,
                         .last = calls_.front()->piece_age(HttpCall::Bytes::kLast),
                         .all = calls_.front()->piece_age(HttpCall::Bytes::kAll)});
    };
    thread_.run([&] { calls_.push_back(client_->start(peer_.url(), get(), seconds(20), std::move(handlers))); });
    socket_.emplace(accept_request());
    ASSERT_TRUE(socket_->send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"));
    ASSERT_TRUE(thread_.wait([this] { return pieces_.size() == 1; }));
  }

  /// Sends each of the texts while the loop is held up, `apart` from each other, and returns how long ago the last was
  /// sent when the loop was let go.
  Duration send_while_held(const std::vector<std::string>& texts, Duration apart) {
    std::promise<void> held;
    std::promise<void> release;
    std::thread holder([&] {
      thread_.run([&] {
        held.set_value();
        release.get_future().wait();
      });
    });
    held.get_future().wait();
    TimePoint sent;
    for (const std::string& text : texts) {
      EXPECT_TRUE(socket_->send(text));
      sent = now();
      std::this_thread::sleep_for(apart);
    }
    const Duration since = now() - sent;
    release.set_value();
    holder.join();
    return since;
  }

  /// The system begins to stamp a moment after it was first asked to.
  [[nodiscard]] bool stamps() {
    for (int i = 0; i < 200; ++i) {
      const std::size_t before = pieces_.size();
      EXPECT_TRUE(socket_->send("1\r\nx\r\n"));
      EXPECT_TRUE(thread_.wait([&] { return pieces_.size() > before; }));
      if (pieces_.back().last.stamped) return true;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return false;
  }

  std::optional<RawSocket> socket_;
  std::vector<Piece> pieces_;
  Duration longest_send_{-1};
};

TEST_F(PieceAgeTest, APacketIsAsOldAsTheLoopWasHeldUp) {
  begin_answer();
  EXPECT_GE(longest_send_, Duration::zero());
  const bool stamped = stamps();
  const std::size_t before = pieces_.size();
  const Duration since = send_while_held({"3\r\nabc\r\n"}, milliseconds(30));
  ASSERT_TRUE(thread_.wait([&] { return pieces_.size() > before; }));
  const Piece& piece = pieces_.back();
  EXPECT_EQ(piece.data, "abc");
  EXPECT_GE(piece.all.at_most, since);
  EXPECT_GE(piece.last.at_most, since);
  if (!stamped) GTEST_SKIP() << "this system stamps no packets";
  EXPECT_TRUE(piece.last.stamped);
  EXPECT_GE(piece.last.at_least, since);
  EXPECT_EQ(piece.last.at_least, piece.last.at_most) << "the read ended with this piece";
  EXPECT_EQ(piece.all.at_least, piece.all.at_most) << "it was one packet";
}

TEST_F(PieceAgeTest, OfSeveralPacketsOnlyTheLastIsKnown) {
  begin_answer();
  const bool stamped = stamps();
  const std::size_t before = pieces_.size();
  constexpr Duration kApart = milliseconds(20);
  const Duration since = send_while_held({"3\r\nabc\r\n", "3\r\ndef\r\n", "3\r\nghi\r\n"}, kApart);
  ASSERT_TRUE(thread_.wait([&] { return pieces_.size() == before + 3; }));
  for (std::size_t i = before; i < pieces_.size(); ++i) EXPECT_EQ(pieces_[i].read, pieces_.back().read);
  EXPECT_GE(pieces_[before].all.at_most, since + 2 * kApart);
  if (!stamped) GTEST_SKIP() << "this system stamps no packets";
  for (std::size_t i = before; i < pieces_.size(); ++i) EXPECT_GE(pieces_[i].all.at_least, since);
  EXPECT_LT(pieces_[before].all.at_least, pieces_[before].all.at_most);
  EXPECT_EQ(pieces_[before].last.at_most, pieces_[before].all.at_most) << "more came behind it";
  EXPECT_EQ(pieces_.back().last.at_least, pieces_.back().last.at_most) << "the stamp is its own";
}

// An answer whose pieces are read together: the loop slept until the first of them came, and that is not their age.
TEST_F(PieceAgeTest, WhatWokeTheLoopIsNotAsOldAsItSlept) {
  begin_answer();
  if (!RunQueue().read()) GTEST_SKIP() << "this system does not count how long a thread waits for a processor";
  constexpr Duration kSlept = milliseconds(20);
  // A loop that is preempted just then does not know how late it was, and one that is quick reads each packet alone.
  bool together = false;
  bool known = false;
  for (int round = 0; round < 500 && !known; ++round) {
    const std::size_t before = pieces_.size();
    std::this_thread::sleep_for(kSlept);
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(socket_->send("3\r\nabc\r\n"));
    ASSERT_TRUE(thread_.wait([&] { return pieces_.size() == before + 4; }));
    // Packets of one read have an age each, of which the last one's is known.
    const PieceAge& age = pieces_[before].all;
    if (pieces_[before].read != pieces_[before + 1].read || (age.stamped && age.at_least == age.at_most)) continue;
    together = true;
    EXPECT_GE(age.at_most, pieces_[before + 1].last.at_least);
    known = age.at_most < kSlept / 2;
  }
  if (!together) GTEST_SKIP() << "no two packets were read together";
  EXPECT_TRUE(known);
}

TEST_F(PieceAgeTest, PiecesOfOnePacketArrivedTogether) {
  begin_answer();
  if (!stamps()) GTEST_SKIP() << "this system stamps no packets";
  // The first time it may be unknown how many packets were read before.
  for (int round = 0; round < 3; ++round) {
    const std::size_t before = pieces_.size();
    ASSERT_TRUE(socket_->send("3\r\nabc\r\n3\r\ndef\r\n"));
    ASSERT_TRUE(thread_.wait([&] { return pieces_.size() == before + 2; }));
    EXPECT_EQ(pieces_[before].all.at_least, pieces_[before].all.at_most);
    EXPECT_EQ(pieces_[before + 1].all.at_least, pieces_[before].all.at_least);
  }
}

TEST_F(HttpClientTest, WithoutStampsNothingIsKnownOfPieces) {
  Seen seen;
  const std::size_t call = start(seen, get());
  RawSocket socket = accept_request();
  ASSERT_TRUE(socket.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"));
  ASSERT_TRUE(thread_.wait([&] { return seen.body == "abc"; }));
  EXPECT_FALSE(thread_.run([&] { return calls_[call]->piece_age(HttpCall::Bytes::kLast).stamped; }));
  thread_.run([&] { calls_.clear(); });  // before `seen`, which it writes into
}

}  // namespace
}  // namespace kvist::net::piece_age_test
