#include "kvist/peering/part_taker.h"

#include <algorithm>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/peering/index_codec.h"

namespace kvist::peering {

PartTaker::PartTaker(std::string name, std::uint64_t run, std::uint32_t block_size, kv::BlockHash root)
    : name_(std::move(name)), run_(run), block_size_(block_size), root_(root) {
  for (std::size_t i = 0; i < kPartRefusals; ++i) counters_.failures.emplace(to_string(static_cast<PartRefusal>(i)), 0);
  for (const std::string_view reason : {"no_answer", "unreadable"}) counters_.failures.emplace(reason, 0);
}

void PartTaker::want(WorkerId worker, WorkerKey key, TimePoint now) {
  const auto [entry, is_new] = wanted_.try_emplace(worker, Wanted{.key = key, .due = now});
  if (!is_new) entry->second.key = key;
}

void PartTaker::leave(WorkerId worker) {
  wanted_.erase(worker);
  if (taking_ && taking_->worker == worker && !taking_->importing) taking_.reset();
}

void PartTaker::set_gateways(std::vector<std::string> gateways, TimePoint now) {
  const bool has_new = std::ranges::any_of(
      gateways, [this](const std::string& name) { return std::ranges::find(gateways_, name) == gateways_.end(); });
  gateways_ = std::move(gateways);
  if (!has_new) return;
  for (auto& [worker, wanted] : wanted_) wanted = {.key = wanted.key, .due = now};
}

std::optional<TimePoint> PartTaker::due() const {
  if (taking_) return taking_->importing ? std::nullopt : std::optional(taking_->deadline);
  if (gateways_.empty() || wanted_.empty()) return std::nullopt;
  return std::ranges::min_element(wanted_, {}, [](const auto& one) { return one.second.due; })->second.due;
}

PartTaker::Actions PartTaker::poll(TimePoint now) {
  Actions actions;
  if (taking_) {
    if (taking_->importing || now < taking_->deadline) return actions;
    if (taking_->part && !std::exchange(taking_->asked_again, true))
      ask_piece(actions, now);
    else
      fail_at(actions, "no_answer", now);
  }
  if (taking_ || gateways_.empty() || wanted_.empty()) return actions;
  const auto next = std::ranges::min_element(wanted_, {}, [](const auto& one) { return one.second.due; });
  if (next->second.due <= now) start(actions, next->first, next->second, now);
  return actions;
}

void PartTaker::start(Actions& actions, WorkerId worker, const Wanted& wanted, TimePoint now) {
  taking_ = Taking{.worker = worker, .key = wanted.key, .gateways = gateways_};
  // The one that was able to help the last time is asked first.
  auto& order = taking_->gateways;
  std::ranges::stable_partition(order, [this](const std::string& name) { return name != last_good_; });
  actions.emplace_back(KeepFrames{.worker = worker});
  ask_next(actions, now);
}

void PartTaker::ask_next(Actions& actions, TimePoint now) {
  if (taking_->gateways.empty()) {
    actions.emplace_back(KeepFrames{.worker = taking_->worker, .keep = false});
    return put_off(now);
  }
  taking_->gateway = std::move(taking_->gateways.back());
  taking_->gateways.pop_back();
  taking_->transfer = TransferId(++transfers_);
  taking_->part = nullptr;
  taking_->blocks = 0;
  taking_->bytes = 0;
  taking_->asked_again = false;
  taking_->deadline = now + kHeadTime;
  actions.emplace_back(request(AskPart{.worker = taking_->key, .block_size = block_size_, .root = root_}));
}

/// No gateway has it: all are asked again later.
void PartTaker::put_off(TimePoint now) {
  const auto wanted = wanted_.find(taking_->worker);
  const bool was_busy = taking_->was_busy;
  taking_.reset();
  if (wanted == wanted_.end()) return;
  wanted->second.due = now + (was_busy ? kBusyPause : wanted->second.pause);
  if (!was_busy) wanted->second.pause = std::min(2 * wanted->second.pause, kLongestPause);
}

PartTaker::Actions PartTaker::on_answer(std::span<const std::uint8_t> bytes, TimePoint now) {
  Actions actions;
  if (!taking_ || taking_->importing) return actions;
  counters_.bytes += bytes.size();
  if (bytes.empty()) {  // the server says that nobody listens there
    fail_at(actions, "no_answer", now);
    return actions;
  }
  auto answer = decode_answer(bytes);
  if (!answer) {
    fail_at(actions, "unreadable", now);
    return actions;
  }
  if (answer->transfer != taking_->transfer) return actions;  // came late
  taking_->bytes += bytes.size();
  if (const auto* const refusal = std::get_if<PartRefusal>(&answer->what)) {
    taking_->was_busy = taking_->was_busy || *refusal == PartRefusal::kBusy;
    fail_at(actions, to_string(*refusal), now);
  } else if (const auto* const head = std::get_if<PartHead>(&answer->what)) {
    take_head(actions, *head, now);
  } else {
    take_piece(actions, std::get<NumberedPiece>(std::move(answer->what)), now);
  }
  return actions;
}

void PartTaker::take_head(Actions& actions, const PartHead& head, TimePoint now) {
  if (taking_->part) return;  // came twice
  const bool is_sound = head.worker == taking_->key && (head.blocks == 0) == (head.pieces == 0);
  if (!is_sound) return fail_at(actions, "unreadable", now);
  taking_->part = std::make_shared<WorkerPart>(WorkerPart{.head = head});
  if (head.pieces == 0) return complete(actions);
  ask_piece(actions, now);
}

void PartTaker::ask_piece(Actions& actions, TimePoint now) {
  taking_->deadline = now + kPieceTime;
  actions.emplace_back(request(AskPiece{.number = static_cast<std::uint32_t>(taking_->part->pieces.size())}));
}

void PartTaker::take_piece(Actions& actions, NumberedPiece piece, TimePoint now) {
  if (!taking_->part || piece.number != taking_->part->pieces.size()) return;  // came late
  WorkerPart& part = *taking_->part;
  taking_->blocks += piece.piece.keys.size();
  part.pieces.push_back(std::move(piece.piece));
  const bool is_last = part.pieces.size() == part.head.pieces;
  const bool fits = taking_->blocks <= part.head.blocks && taking_->bytes <= kMaxPartBytes;
  if (!fits || (is_last && taking_->blocks != part.head.blocks)) return fail_at(actions, "unreadable", now);
  taking_->asked_again = false;
  if (is_last) return complete(actions);
  ask_piece(actions, now);
}

void PartTaker::complete(Actions& actions) {
  taking_->importing = true;
  actions.emplace_back(request(EndOfAsking()));
  actions.emplace_back(Import{.worker = taking_->worker, .part = std::move(taking_->part)});
}

PartTaker::Actions PartTaker::on_imported(std::string_view problem, TimePoint now) {
  KVIST_CHECK(taking_ && taking_->importing, "a part was given to be put into the index");
  if (problem.empty()) {
    ++counters_.parts;
    counters_.blocks += taking_->blocks;
    last_good_ = taking_->gateway;
    last_problem_.clear();
    wanted_.erase(taking_->worker);
    taking_.reset();
  } else {
    note_failure(problem);
    put_off(now);
  }
  return poll(now);
}

/// This gateway does not help: the next one may.
void PartTaker::fail_at(Actions& actions, std::string_view reason, TimePoint now) {
  note_failure(reason);
  if (taking_->part) actions.emplace_back(request(EndOfAsking()));
  ask_next(actions, now);
}

void PartTaker::note_failure(std::string_view reason) {
  ++counters_.failures.emplace(reason, 0).first->second;
  last_problem_ = taking_->gateway + ": " + std::string(reason);
}

PartTaker::Ask PartTaker::request(std::variant<AskPart, AskPiece, EndOfAsking> what) const {
  return {.gateway = taking_->gateway,
          .bytes = encode(IndexRequest{.gateway = name_, .run = run_, .transfer = taking_->transfer, .what = what})};
}

std::optional<PartTaker::Current> PartTaker::current() const {
  if (!taking_) return std::nullopt;
  return Current{.worker = taking_->worker,
                 .gateway = taking_->gateway,
                 .pieces = taking_->part ? taking_->part->pieces.size() : 0};
}

}  // namespace kvist::peering
