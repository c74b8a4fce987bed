// A worker's part of the index, for another gateway and from one: in slices, while the worker's frames wait.
#include <utility>

#include "kvist/gateway/kv_event_feed.h"
#include "kvist/kv_index/kv_index_transfer.h"
#include "kvist/peering/index_codec.h"

namespace kvist::gateway {
namespace {

std::string_view reason_of(kv::EventSequencer::Fit fit) {
  switch (fit) {
    case kv::EventSequencer::Fit::kFits:
      return {};
    case kv::EventSequencer::Fit::kNotLost:
      return "not_lost";
    case kv::EventSequencer::Fit::kOtherRun:
      return "other_run";
    case kv::EventSequencer::Fit::kTooOld:
      return "too_old";
    case kv::EventSequencer::Fit::kUnproven:
      break;
  }
  return "unproven";
}

}  // namespace

struct KvEventFeed::ExportJob {
  kv_index::KvIndex::Export work;
  peering::ExportedPart part;
  Exported done;
};

struct KvEventFeed::ImportJob {
  std::shared_ptr<const peering::WorkerPart> part;
  Imported done;
  kv_index::KvIndex::Import work;
  std::size_t next = 0;  // piece
};

KvEventFeed::~KvEventFeed() {
  if (export_) std::exchange(export_, nullptr)->done(peering::PartRefusal::kUnknownWorker);
  if (import_) std::exchange(import_, nullptr)->done("gone");
}

void KvEventFeed::export_part(Exported done) {
  if (is_held()) return done(peering::PartRefusal::kBusy);
  auto position = exact() ? sequencer_.position() : std::nullopt;
  if (!position) return done(peering::PartRefusal::kNotExact);
  export_ = std::make_unique<ExportJob>(ExportJob{.work = shared_->index->export_part(worker_),
                                                  .part = {.position = *std::move(position)},
                                                  .done = std::move(done)});
  timer_.cancel();
  export_slice();
}

void KvEventFeed::export_slice() {
  if (!export_) return;
  kv_index::BlockPiece piece;
  using Step = kv_index::KvIndex::Export::Step;
  const Step step = export_->work.step(piece);
  const bool is_too_much =
      export_->work.blocks() > peering::kMaxPartBlocks || export_->part.pieces.size() >= peering::kMaxPieces;
  if (step == Step::kChanged || is_too_much) return end_export(peering::PartRefusal::kChanged);
  if (step == Step::kDone) {
    export_->part.blocks = export_->work.blocks();
    return end_export(std::move(export_->part));
  }
  if (!piece.empty()) export_->part.pieces.push_back(peering::encode_piece(piece));
  post(&KvEventFeed::export_slice);
}

void KvEventFeed::end_export(std::variant<peering::PartRefusal, peering::ExportedPart> result) {
  const auto job = std::exchange(export_, nullptr);
  settle();
  post(&KvEventFeed::take_frames);
  job->done(std::move(result));
}

void KvEventFeed::keep_frames(bool keep) {
  if (!keep) return sequencer_.drop_kept();
  if (sequencer_.lost()) sequencer_.keep_frames();
}

void KvEventFeed::import_part(std::shared_ptr<const peering::WorkerPart> part, Imported done) {
  if (is_held()) return done("busy");
  const auto fit = sequencer_.fit(part->head.position);
  if (fit != kv::EventSequencer::Fit::kFits) {
    sequencer_.drop_kept();
    return done(reason_of(fit));
  }
  news_.add(shared_->index->reset(worker_));
  import_ = std::make_unique<ImportJob>(
      ImportJob{.part = std::move(part), .done = std::move(done), .work = shared_->index->import_part(worker_)});
  settle();
  import_slice();
}

void KvEventFeed::import_slice() {
  if (!import_) return;
  if (import_->next == import_->part->pieces.size()) return end_import({});
  if (import_->work.add(import_->part->pieces[import_->next++])) return end_import("refused");
  post(&KvEventFeed::import_slice);
}

void KvEventFeed::end_import(std::string_view problem) {
  const auto job = std::exchange(import_, nullptr);
  job->work.finish();
  if (problem.empty()) {
    const peering::PartHead& head = job->part->head;
    unread_since_reset_ = false;
    news_.add(shared_->index->on_imported(worker_));
    act(sequencer_.resume(head.position, net::now()));
  } else {
    news_.add(shared_->index->reset(worker_));
    sequencer_.drop_kept();
  }
  settle();
  post(&KvEventFeed::take_frames);
  job->done(problem);
}

}  // namespace kvist::gateway
