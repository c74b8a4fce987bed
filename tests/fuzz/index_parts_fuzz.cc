// fuzz: peering
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "kvist/base/check.h"
#include "kvist/kv/event_sequencer.h"
#include "kvist/kv_index/kv_index_transfer.h"
#include "kvist/peering/index_codec.h"
#include "kvist/peering/part_giver.h"
#include "kvist/peering/part_taker.h"

namespace {

using namespace kvist;  // NOLINT(google-build-using-namespace): one small program

constexpr TimePoint kNow{std::chrono::seconds(1)};
constexpr WorkerId kWorker{1};

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// Whether no key is at two places, as is the case for keys that are hashes of prefixes.
bool has_one_place_each(const kv_index::BlockPiece& piece) {
  std::set<kv::BlockHash> keys;
  for (const kv::BlockHash key : piece.keys)
    if (key == kv::BlockHash() || !keys.insert(key).second) return false;
  return true;
}

/// A piece, whatever it says, makes an index of which another index can be made, and of which nothing is left.
void pass_on(const kv_index::BlockPiece& piece) {
  kv_index::KvIndex here({.model = "m", .block_size = 16, .workers = 2});
  const bool is_sound = has_one_place_each(piece);
  {
    kv_index::KvIndex::Import work(here, kWorker);
    // Twice, so that it meets its own blocks.
    if (!work.add(piece)) (void)work.add(piece);
  }
  kv_index::KvIndex there({.model = "m", .block_size = 16, .workers = 2});
  {
    kv_index::KvIndex::Export from(here, kWorker);
    kv_index::KvIndex::Import to(there, kWorker);
    kv_index::BlockPiece next;
    while (true) {
      const auto step = from.step(next);
      KVIST_CHECK(step != kv_index::KvIndex::Export::Step::kChanged, "nothing else happens");
      if (step == kv_index::KvIndex::Export::Step::kDone) break;
      KVIST_CHECK(!to.add(next) || !is_sound, "what an index has, another one can have");
    }
  }
  KVIST_CHECK(there.keys() == here.keys() || !is_sound, "and it has the same blocks");
  for (const kv::Medium medium : {kv::Medium::kDevice, kv::Medium::kHost, kv::Medium::kDisk, kv::Medium::kRemote}) {
    const bool is_same = there.worker_blocks(kWorker, medium) == here.worker_blocks(kWorker, medium);
    KVIST_CHECK(is_same || !is_sound, "under the same names");
  }
  here.clear(kWorker);
  KVIST_CHECK(here.keys() == 0, "nothing is left");
}

/// A position, whatever it says, leaves a stream that goes on.
void go_on_from(const kv::StreamPosition& position) {
  for (const bool replay_available : {true, false}) {
    kv::EventSequencer stream({.replay_available = replay_available});
    (void)stream.on_live(7, "a batch", kNow);
    (void)stream.on_replay_end(kNow);
    if (stream.fit(position) == kv::EventSequencer::Fit::kFits) (void)stream.resume(position, kNow);
    (void)stream.on_live(8, "another", kNow);
    (void)stream.on_replayed(8, "another", kNow);
    (void)stream.on_replay_end(kNow);
  }
}

}  // namespace

/// The bytes as a request and as an answer. What can be read is written the same way again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> bytes(data, size);
  peering::PartGiver giver(16, kv::BlockHash(5), [](peering::WorkerKey) { return std::optional(kWorker); });
  if (const auto request = peering::decode_request(bytes)) {
    const std::string again = peering::encode(*request);
    const auto read = peering::decode_request(bytes_of(again));
    KVIST_CHECK(read && peering::encode(*read) == again, "a request is written the same way");
  }
  const auto action = giver.on_request(bytes, "inbox", kNow);
  if (std::holds_alternative<peering::PartGiver::Export>(action)) {
    (void)giver.on_exported(
        peering::ExportedPart{.position = {.next = 1, .digests = {1}}, .blocks = 1, .pieces = {"x"}}, kNow);
    (void)giver.on_request(bytes, "inbox", kNow);
  }
  peering::PartTaker taker("me", 1, 16, kv::BlockHash(5));
  taker.want(kWorker, peering::WorkerKey(100), kNow);
  taker.set_gateways({"a", "b"}, kNow);
  (void)taker.poll(kNow);
  for (int i = 0; i < 3; ++i) {
    for (const auto& next : taker.on_answer(bytes, kNow))
      if (std::holds_alternative<peering::PartTaker::Import>(next)) (void)taker.on_imported({}, kNow);
  }
  const auto answer = peering::decode_answer(bytes);
  if (!answer) return 0;
  const std::string again = peering::encode(*answer);
  const auto read = peering::decode_answer(bytes_of(again));
  KVIST_CHECK(read && peering::encode(*read) == again, "an answer is written the same way");
  if (const auto* const head = std::get_if<peering::PartHead>(&answer->what)) go_on_from(head->position);
  if (const auto* const piece = std::get_if<peering::NumberedPiece>(&answer->what)) pass_on(piece->piece);
  return 0;
}
