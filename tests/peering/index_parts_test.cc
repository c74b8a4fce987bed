// Parts of an index that pass between gateways: their messages, and who says what when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/peering/index_codec.h"
#include "kvist/peering/part_giver.h"
#include "kvist/peering/part_taker.h"

namespace kvist::peering::index_parts_test {
namespace {

using kv_index::BlockPiece;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr TimePoint kStart{seconds(1'000)};
constexpr std::uint32_t kBlockSize = 16;
constexpr kv::BlockHash kRoot{7};

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

BlockPiece random_piece(RandomStream& random, std::size_t most) {
  BlockPiece piece;
  std::uint32_t blocks = 0;
  for (std::size_t run = 0; run < most && blocks < most; ++run) {
    const auto size = static_cast<std::uint32_t>(1 + random.next() % (most - blocks));
    piece.runs.push_back({.parent = static_cast<std::uint32_t>(random.next() % (blocks + 1)), .blocks = size});
    for (std::uint32_t i = 0; i < size; ++i) {
      piece.keys.emplace_back(random.next());
      piece.names.emplace_back(random.next() % 5 == 0 ? 0 : random.next());
    }
    blocks += size;
  }
  for (std::size_t i = random.next() % 4; i > 0 && blocks > 0; --i) {
    piece.further.push_back({.block = static_cast<std::uint32_t>(1 + random.next() % blocks),
                             .name = kv::ExternalHash(random.next()),
                             .medium = static_cast<kv::Medium>(random.next() % 4),
                             .copies = static_cast<std::uint32_t>(1 + random.next() % 3)});
  }
  return piece;
}

TEST(IndexCodecTest, RequestsReadBack) {
  for (const auto& what : std::initializer_list<std::variant<AskPart, AskPiece, EndOfAsking>>{
           AskPart{.worker = WorkerKey(99), .block_size = 16, .root = kv::BlockHash(~0ULL)}, AskPiece{.number = 17},
           EndOfAsking{}}) {
    const IndexRequest request{.gateway = "b", .run = 5, .transfer = TransferId(6), .what = what};
    const auto read = decode_request(bytes_of(encode(request)));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->gateway, "b");
    EXPECT_EQ(read->run, 5U);
    EXPECT_EQ(read->transfer, TransferId(6));
    EXPECT_EQ(encode(*read), encode(request));
    EXPECT_LE(encode(request).size(), kMaxAskBytes);
  }
}

TEST(IndexCodecTest, AnswersReadBack) {
  const PartHead head{.worker = WorkerKey(4),
                      .position = {.next = 12, .digests = {1, ~0ULL, 3}, .counts_from_zero = true},
                      .blocks = 40'000,
                      .pieces = 5};
  const auto read = decode_answer(bytes_of(encode(IndexAnswer{.transfer = TransferId(1), .what = head})));
  ASSERT_TRUE(read) << read.error().message;
  const PartHead& again = std::get<PartHead>(read->what);
  EXPECT_EQ(again.worker, head.worker);
  EXPECT_EQ(again.position, head.position);
  EXPECT_EQ(again.blocks, head.blocks);
  EXPECT_EQ(again.pieces, head.pieces);
  for (std::size_t i = 0; i < kPartRefusals; ++i) {
    const auto refusal = static_cast<PartRefusal>(i);
    const auto refused = decode_answer(bytes_of(encode(IndexAnswer{.transfer = TransferId(1), .what = refusal})));
    ASSERT_TRUE(refused);
    EXPECT_EQ(std::get<PartRefusal>(refused->what), refusal);
  }
}

TEST(IndexCodecTest, RandomPiecesReadBack) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomStream random(seed);
    const NumberedPiece piece{.number = static_cast<std::uint32_t>(seed), .piece = random_piece(random, 1 + seed % 90)};
    const std::string bytes = encode(IndexAnswer{.transfer = TransferId(seed), .what = piece});
    const auto read = decode_answer(bytes_of(bytes));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->transfer, TransferId(seed));
    EXPECT_EQ(std::get<NumberedPiece>(read->what).piece, piece.piece);
    EXPECT_EQ(std::get<NumberedPiece>(read->what).number, piece.number);
    // Whatever is cut off or changed is refused or is something else, but nothing worse.
    const auto cut = decode_answer(bytes_of(bytes.substr(0, random.next() % bytes.size())));
    EXPECT_FALSE(cut);
    std::string spoilt = bytes;
    spoilt[random.next() % spoilt.size()] = static_cast<char>(random.next());
    (void)decode_answer(bytes_of(spoilt));
  }
}

/// A piece of as many items as there may be, each as long as it may be.
TEST(IndexCodecTest, TheLargestPieceFitsIntoAMessage) {
  BlockPiece piece;
  for (std::uint32_t i = 0; i < BlockPiece::kMostItems; ++i) {
    piece.runs.push_back({.parent = kMaxPartBlocks - i, .blocks = 1});
    piece.keys.emplace_back(~0ULL - i);
    piece.names.emplace_back(~0ULL - i);
    piece.further.push_back({.block = kMaxPartBlocks - i,
                             .name = kv::ExternalHash(~0ULL - i),
                             .medium = kv::Medium::kRemote,
                             .copies = BlockPiece::kMostCopies});
  }
  const std::string bytes =
      encode(IndexAnswer{.transfer = TransferId(~0ULL), .what = NumberedPiece{kMaxPieces - 1, piece}});
  EXPECT_LE(bytes.size(), kMaxPieceBytes);
  ASSERT_TRUE(decode_answer(bytes_of(bytes)));
}

TEST(IndexCodecTest, WhatIsNotSoundIsRefused) {
  const auto answer = [](PartHead head) {
    return decode_answer(bytes_of(encode(IndexAnswer{.transfer = TransferId(1), .what = std::move(head)}))).has_value();
  };
  EXPECT_TRUE(answer({.position = {.next = 1, .digests = {5}}}));
  EXPECT_FALSE(answer({.position = {.next = 1, .digests = {5, 6}}})) << "more frames than there were";
  EXPECT_FALSE(answer({.position = {.next = 1, .digests = {}}})) << "no frame by which the run is known";
  EXPECT_FALSE(answer({.position = {.next = 50'000, .digests = std::vector<std::uint64_t>(16'385)}}));
  EXPECT_FALSE(answer({.position = {.next = 1, .digests = {5}}, .blocks = kMaxPartBlocks + 1, .pieces = 1}));
  EXPECT_FALSE(answer({.position = {.next = 1, .digests = {5}}, .blocks = 1, .pieces = kMaxPieces + 1}));
  const auto piece = [](const BlockPiece& one) {
    return decode_answer(bytes_of(encode(IndexAnswer{.transfer = TransferId(1), .what = NumberedPiece{0, one}})))
        .has_value();
  };
  EXPECT_TRUE(piece({.further = {{.block = 1}}}));
  EXPECT_FALSE(piece({.further = {{.block = 0}}}));
  EXPECT_FALSE(piece({.further = {{.block = 1, .copies = 0}}}));
  EXPECT_FALSE(piece({.further = {{.block = 1, .medium = static_cast<kv::Medium>(4)}}}));
  const auto unknown = decode_answer(bytes_of(std::string("\x94\x02\x01\x00\x91\x00", 6)));
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kUnsupported) << "version 2";
  EXPECT_FALSE(decode_request(bytes_of(std::string(kMaxAskBytes + 1, 'x'))));
  EXPECT_FALSE(decode_answer(bytes_of(std::string(kMaxPieceBytes + 1, 'x'))));
}

/// Gateways with parts, and a taker; requests and answers pass at once, unless a test holds them back.
class IndexPartsTest : public testing::Test {
 protected:
  struct Gateway {
    std::unique_ptr<PartGiver> giver;
    std::map<WorkerId, ExportedPart> parts;
    std::map<WorkerId, PartRefusal> refusals;
  };

  Gateway& add(const std::string& name) {
    Gateway& made = gateways_[name];
    made.giver = std::make_unique<PartGiver>(kBlockSize, kRoot, [](WorkerKey key) -> std::optional<WorkerId> {
      if (key == WorkerKey(100)) return WorkerId(0);
      if (key == WorkerKey(101)) return WorkerId(1);
      return std::nullopt;
    });
    return made;
  }
  static ExportedPart part(std::uint64_t next, std::size_t pieces) {
    ExportedPart part{.position = {.next = next, .digests = {next}}};
    for (std::size_t i = 0; i < pieces; ++i) {
      part.pieces.push_back(encode_piece({.runs = {{.parent = static_cast<std::uint32_t>(i), .blocks = 1}},
                                          .keys = {kv::BlockHash(next + i)},
                                          .names = {kv::ExternalHash(i)}}));
      ++part.blocks;
    }
    return part;
  }
  void hear(std::vector<std::string> names) {
    taker_.set_gateways(std::move(names), now_);
    obey(taker_.poll(now_));
  }
  void want(std::uint32_t worker) {
    taker_.want(WorkerId(worker), WorkerKey(100 + worker), now_);
    obey(taker_.poll(now_));
  }
  void pass(Duration time) {
    const TimePoint end = now_ + time;
    while (taker_.due() && *taker_.due() <= end) {
      now_ = std::max(now_, *taker_.due());
      obey(taker_.poll(now_));
    }
    now_ = end;
  }
  void obey(const PartTaker::Actions& actions) {
    for (const PartTaker::Action& action : actions) {
      if (const auto* const ask = std::get_if<PartTaker::Ask>(&action)) {
        said_.push_back(ask->gateway);
        last_ask_ = ask->bytes;
        if (!is_held_) deliver(*ask);
      }
      if (const auto* const keep = std::get_if<PartTaker::KeepFrames>(&action)) kept_[keep->worker] = keep->keep;
      if (const auto* const import = std::get_if<PartTaker::Import>(&action)) {
        imported_.emplace_back(import->worker, import->part);
        import_due_ = true;
      }
    }
    if (!std::exchange(import_due_, false)) return;
    const std::string problem = problems_.empty() ? std::string() : problems_.front();
    if (!problems_.empty()) problems_.pop_front();
    obey(taker_.on_imported(problem, now_));
  }
  void deliver(const PartTaker::Ask& ask) {
    const auto gateway = gateways_.find(ask.gateway);
    if (gateway == gateways_.end()) return;
    Gateway& peer = gateway->second;
    auto action = peer.giver->on_request(bytes_of(ask.bytes), "inbox", now_);
    if (const auto* const work = std::get_if<PartGiver::Export>(&action)) {
      const auto refusal = peer.refusals.find(work->worker);
      action = refusal != peer.refusals.end() ? peer.giver->on_exported(refusal->second, now_)
                                              : peer.giver->on_exported(peer.parts.at(work->worker), now_);
    }
    const auto* const answer = std::get_if<PartGiver::Answer>(&action);
    if (answer == nullptr) return;
    EXPECT_EQ(answer->to, "inbox");
    if (lost_answers_.contains(++answers_)) return;
    obey(taker_.on_answer(bytes_of(answer->bytes), now_));
  }

  /// An answer to what was asked last.
  void answer(std::variant<PartRefusal, PartHead, NumberedPiece> what) {
    const auto asked = decode_request(bytes_of(last_ask_));
    ASSERT_TRUE(asked);
    obey(taker_.on_answer(bytes_of(encode(IndexAnswer{.transfer = asked->transfer, .what = std::move(what)})), now_));
  }

  /// By reason, without those that were never the case.
  [[nodiscard]] std::map<std::string, std::uint64_t> failures() const {
    std::map<std::string, std::uint64_t> found;
    for (const auto& [reason, count] : taker_.counters().failures)
      if (count > 0) found.emplace(reason, count);
    return found;
  }

  std::map<std::string, Gateway> gateways_;
  PartTaker taker_{"me", 1, kBlockSize, kRoot};
  TimePoint now_ = kStart;
  bool is_held_ = false;
  bool import_due_ = false;
  int answers_ = 0;
  std::set<int> lost_answers_;        // by number
  std::deque<std::string> problems_;  // of the next imports
  std::vector<std::string> said_;     // to whom
  std::string last_ask_;
  std::map<WorkerId, bool> kept_;
  std::vector<std::pair<WorkerId, std::shared_ptr<const WorkerPart>>> imported_;
};

TEST_F(IndexPartsTest, APartComesPieceByPiece) {
  add("a").parts[WorkerId(0)] = part(50, 3);
  hear({"a"});
  want(0);
  ASSERT_EQ(imported_.size(), 1U);
  EXPECT_EQ(imported_[0].first, WorkerId(0));
  const WorkerPart& got = *imported_[0].second;
  EXPECT_EQ(got.head.position.next, 50U);
  ASSERT_EQ(got.pieces.size(), 3U);
  EXPECT_EQ(got.pieces[2].keys, std::vector{kv::BlockHash(52)});
  EXPECT_EQ(said_.size(), 5U) << "the part, three pieces, the end";
  EXPECT_FALSE(gateways_["a"].giver->is_giving());
  EXPECT_TRUE(kept_[WorkerId(0)]) << "what follows the part was kept from the beginning";
  EXPECT_EQ(taker_.wanted(), 0U);
  EXPECT_EQ(taker_.due(), std::nullopt);
  EXPECT_EQ(taker_.counters().parts, 1U);
  EXPECT_EQ(taker_.counters().blocks, 3U);
  EXPECT_EQ(gateways_["a"].giver->counters().parts, 1U);
  EXPECT_EQ(gateways_["a"].giver->counters().blocks, 3U);
}

TEST_F(IndexPartsTest, AnEmptyPartIsAPart) {
  add("a").parts[WorkerId(0)] = part(9, 0);
  hear({"a"});
  want(0);
  ASSERT_EQ(imported_.size(), 1U);
  EXPECT_THAT(imported_[0].second->pieces, IsEmpty());
}

TEST_F(IndexPartsTest, OneWorkerAfterTheOther) {
  Gateway& peer = add("a");
  peer.parts[WorkerId(0)] = part(50, 2);
  peer.parts[WorkerId(1)] = part(60, 2);
  taker_.want(WorkerId(1), WorkerKey(101), now_);
  want(0);
  EXPECT_THAT(said_, IsEmpty()) << "nobody is heard yet";
  hear({"a"});
  ASSERT_EQ(imported_.size(), 2U);
  EXPECT_EQ(imported_[0].first, WorkerId(0));
  EXPECT_EQ(imported_[1].second->head.position.next, 60U);
}

TEST_F(IndexPartsTest, TheNextGatewayIsAskedIfOneDoesNotKnowOrIsSilent) {
  add("a").refusals[WorkerId(0)] = PartRefusal::kNotExact;
  add("b").parts[WorkerId(0)] = part(50, 2);
  hear({"b", "a", "gone"});
  want(0);
  EXPECT_THAT(said_, ElementsAre("gone"));
  pass(PartTaker::kHeadTime);
  ASSERT_EQ(imported_.size(), 1U);
  EXPECT_THAT(failures(), ElementsAre(Pair("no_answer", 1), Pair("not_exact", 1)));
  // The one that helped is asked first.
  gateways_["b"].parts[WorkerId(1)] = part(7, 1);
  said_.clear();
  want(1);
  EXPECT_EQ(said_.front(), "b");
  EXPECT_EQ(imported_.size(), 2U);
}

TEST_F(IndexPartsTest, TwoThatKnowNothingAskEachOtherSeldom) {
  add("a").refusals[WorkerId(0)] = PartRefusal::kNotExact;
  hear({"a"});
  want(0);
  EXPECT_EQ(said_.size(), 1U);
  EXPECT_FALSE(kept_[WorkerId(0)]) << "nothing is kept for nothing";
  pass(std::chrono::minutes(10));
  EXPECT_LT(said_.size(), 30U) << "seconds 1, 3, 7, 15, 31, then every 30 s";
  EXPECT_GT(said_.size(), 20U);
  EXPECT_EQ(taker_.last_problem(), "a: not_exact");
  // A gateway that is new may have what is wanted.
  add("b").parts[WorkerId(0)] = part(50, 2);
  hear({"a", "b"});
  EXPECT_EQ(imported_.size(), 1U);
  EXPECT_EQ(taker_.last_problem(), "");
}

TEST_F(IndexPartsTest, ABusyGatewayIsAskedSoonAgain) {
  Gateway& peer = add("a");
  peer.parts[WorkerId(0)] = part(50, 2);
  const auto other = peer.giver->on_request(
      bytes_of(
          encode(IndexRequest{.gateway = "other",
                              .run = 1,
                              .transfer = TransferId(1),
                              .what = AskPart{.worker = WorkerKey(101), .block_size = kBlockSize, .root = kRoot}})),
      "theirs", now_);
  ASSERT_TRUE(std::holds_alternative<PartGiver::Export>(other));
  hear({"a"});
  want(0);
  EXPECT_THAT(imported_, IsEmpty());
  EXPECT_EQ(peer.giver->counters().refused[static_cast<std::size_t>(PartRefusal::kBusy)], 1U);
  (void)peer.giver->on_exported(part(3, 1), now_);
  pass(PartTaker::kBusyPause);
  EXPECT_THAT(imported_, IsEmpty()) << "the other one has not asked for its piece yet";
  pass(PartGiver::kPatience + PartTaker::kBusyPause);
  EXPECT_EQ(imported_.size(), 1U) << "and is not waited for longer than that";
}

TEST_F(IndexPartsTest, ALostPieceIsAskedForOnceMore) {
  add("a").parts[WorkerId(0)] = part(50, 3);
  lost_answers_ = {3};  // the head, piece 0, piece 1
  hear({"a"});
  want(0);
  EXPECT_THAT(imported_, IsEmpty());
  pass(PartTaker::kPieceTime);
  ASSERT_EQ(imported_.size(), 1U);
  EXPECT_EQ(imported_[0].second->pieces.size(), 3U);
  EXPECT_THAT(failures(), IsEmpty());
}

TEST_F(IndexPartsTest, APieceThatIsLostTwiceEndsItAndALostHeadToo) {
  add("a").parts[WorkerId(0)] = part(50, 3);
  lost_answers_ = {1, 4, 5};
  hear({"a"});
  want(0);
  pass(PartTaker::kHeadTime + PartTaker::kFirstPause);
  EXPECT_THAT(failures(), ElementsAre(Pair("no_answer", 1)));
  EXPECT_EQ(taker_.current()->pieces, 1U);
  pass(2 * PartTaker::kPieceTime);
  EXPECT_THAT(failures(), ElementsAre(Pair("no_answer", 2)));
  pass(2 * PartTaker::kFirstPause);
  EXPECT_EQ(imported_.size(), 1U) << "all is asked again";
}

TEST_F(IndexPartsTest, AGatewayThatStopsInTheMiddleIsLeft) {
  add("a").parts[WorkerId(0)] = part(50, 5);
  add("b").parts[WorkerId(0)] = part(51, 4);
  hear({"b", "a"});
  is_held_ = true;
  want(0);
  // The head and one piece come, then nothing more.
  answer(PartHead{.worker = WorkerKey(100), .position = {.next = 50, .digests = {1}}, .blocks = 5, .pieces = 5});
  const BlockPiece piece{
      .runs = {{.parent = 0, .blocks = 1}}, .keys = {kv::BlockHash(1)}, .names = {kv::ExternalHash(1)}};
  answer(NumberedPiece{0, piece});
  answer(NumberedPiece{0, piece});
  EXPECT_EQ(said_.size(), 3U) << "a piece that comes twice is used once";
  EXPECT_EQ(taker_.current()->pieces, 1U);
  pass(PartTaker::kPieceTime);
  EXPECT_THAT(said_, ElementsAre("a", "a", "a", "a")) << "once more";
  is_held_ = false;
  pass(PartTaker::kPieceTime);
  ASSERT_EQ(imported_.size(), 1U);
  EXPECT_EQ(imported_[0].second->head.position.next, 51U) << "from the other one, whole";
  EXPECT_EQ(imported_[0].second->pieces.size(), 4U);
}

TEST_F(IndexPartsTest, HostileAnswersAreLeft) {
  hear({"a"});
  is_held_ = true;
  want(0);
  const PartHead sound{.worker = WorkerKey(100), .position = {.next = 50, .digests = {1}}, .blocks = 2, .pieces = 2};
  const BlockPiece three{.runs = {{.parent = 0, .blocks = 3}},
                         .keys = {kv::BlockHash(1), kv::BlockHash(2), kv::BlockHash(3)},
                         .names = {kv::ExternalHash(1), kv::ExternalHash(2), kv::ExternalHash(3)}};
  const BlockPiece none{.further = {{.block = 1}}};
  std::uint64_t unreadable = 0;
  const auto expect_failure = [&](const std::string& what) {
    EXPECT_EQ(taker_.counters().failures.at("unreadable"), ++unreadable) << what;
    EXPECT_EQ(taker_.current(), std::nullopt) << what;
    now_ = *taker_.due();
    obey(taker_.poll(now_));
    ASSERT_TRUE(taker_.current()) << what;
  };
  obey(taker_.on_answer(bytes_of("nonsense"), now_));
  expect_failure("bytes");
  PartHead other = sound;
  other.worker = WorkerKey(101);
  answer(other);
  expect_failure("another worker");
  other = sound;
  other.pieces = 0;
  answer(other);
  expect_failure("blocks without pieces");
  answer(sound);
  answer(NumberedPiece{0, three});
  expect_failure("more blocks than were announced");
  answer(sound);
  answer(NumberedPiece{0, none});
  answer(NumberedPiece{1, none});
  expect_failure("fewer");
  answer(NumberedPiece{0, three});
  answer(sound);
  answer(NumberedPiece{7, three});
  EXPECT_EQ(taker_.current()->pieces, 0U) << "pieces that were not asked for are not used";
  EXPECT_THAT(imported_, IsEmpty());
}

TEST_F(IndexPartsTest, APartThatCannotBeUsedIsTriedAgainLater) {
  add("a").parts[WorkerId(0)] = part(50, 2);
  problems_ = {"other_run", "too_old"};
  hear({"a"});
  want(0);
  EXPECT_EQ(imported_.size(), 1U);
  EXPECT_EQ(taker_.wanted(), 1U);
  pass(seconds(1));
  EXPECT_EQ(imported_.size(), 2U);
  pass(seconds(2));
  EXPECT_EQ(imported_.size(), 3U);
  EXPECT_EQ(taker_.wanted(), 0U);
  EXPECT_THAT(failures(), ElementsAre(Pair("other_run", 1), Pair("too_old", 1)));
}

TEST_F(IndexPartsTest, AWorkerWhoseEventsAreWholeAgainIsNotAskedFor) {
  hear({"a"});
  is_held_ = true;
  want(0);
  ASSERT_TRUE(taker_.current());
  taker_.leave(WorkerId(0));
  EXPECT_EQ(taker_.current(), std::nullopt);
  EXPECT_EQ(taker_.due(), std::nullopt);
}

TEST_F(IndexPartsTest, AGatewayOfOtherKeysOrWorkersRefuses) {
  PartGiver giver(32, kRoot, [](WorkerKey) { return std::nullopt; });
  const auto ask = [&](std::uint32_t block_size, kv::BlockHash root) {
    const auto action = giver.on_request(
        bytes_of(encode(IndexRequest{.gateway = "b",
                                     .transfer = TransferId(1),
                                     .what = AskPart{.worker = WorkerKey(1), .block_size = block_size, .root = root}})),
        "inbox", now_);
    const auto read = decode_answer(bytes_of(std::get<PartGiver::Answer>(action).bytes));
    return std::get<PartRefusal>(read->what);
  };
  EXPECT_EQ(ask(16, kRoot), PartRefusal::kOtherKeys);
  EXPECT_EQ(ask(32, kv::BlockHash(8)), PartRefusal::kOtherKeys);
  EXPECT_EQ(ask(32, kRoot), PartRefusal::kUnknownWorker);
  (void)giver.on_request(bytes_of("nonsense"), "inbox", now_);
  EXPECT_EQ(giver.counters().unreadable, 1U);
}

}  // namespace
}  // namespace kvist::peering::index_parts_test
