#include "kvist/peering/part_giver.h"

#include "kvist/peering/index_codec.h"

namespace kvist::peering {

PartGiver::Action PartGiver::on_request(std::span<const std::uint8_t> bytes, const std::string& reply_to,
                                        TimePoint now) {
  expire(now);
  const auto request = decode_request(bytes);
  if (!request) {
    ++counters_.unreadable;
    return {};
  }
  if (const auto* const ask = std::get_if<AskPart>(&request->what)) return begin(*request, *ask, reply_to, now);
  if (const auto* const ask = std::get_if<AskPiece>(&request->what)) return give(*request, ask->number, reply_to, now);
  if (is_current(*request) && transfer_->part) transfer_.reset();
  return {};
}

PartGiver::Action PartGiver::begin(const IndexRequest& request, const AskPart& ask, const std::string& reply_to,
                                   TimePoint now) {
  if (ask.block_size != block_size_ || ask.root != root_)
    return refuse(PartRefusal::kOtherKeys, request.transfer, reply_to);
  const auto worker = find_(ask.worker);
  if (!worker) return refuse(PartRefusal::kUnknownWorker, request.transfer, reply_to);
  if (is_current(request) && transfer_->part) {
    transfer_->touched = now;
    return head(reply_to);  // the first answer was lost
  }
  const bool replaces = transfer_ && transfer_->part && transfer_->gateway == request.gateway;
  if (transfer_ && !replaces) return refuse(PartRefusal::kBusy, request.transfer, reply_to);
  transfer_ = Transfer{.gateway = request.gateway,
                       .run = request.run,
                       .id = request.transfer,
                       .worker = ask.worker,
                       .reply_to = reply_to,
                       .part = {},
                       .touched = now};
  return Export{*worker};
}

PartGiver::Action PartGiver::on_exported(std::variant<PartRefusal, ExportedPart> result, TimePoint now) {
  const std::string reply_to = transfer_->reply_to;
  if (const auto* const refusal = std::get_if<PartRefusal>(&result)) {
    const TransferId id = transfer_->id;
    transfer_.reset();
    return refuse(*refusal, id, reply_to);
  }
  transfer_->part = std::get<ExportedPart>(std::move(result));
  transfer_->touched = now;
  return head(reply_to);
}

PartGiver::Action PartGiver::give(const IndexRequest& request, std::uint32_t number, const std::string& reply_to,
                                  TimePoint now) {
  const bool has_it = is_current(request) && transfer_->part && number < transfer_->part->pieces.size();
  if (!has_it) return refuse(PartRefusal::kUnknownTransfer, request.transfer, reply_to);
  transfer_->touched = now;
  const ExportedPart& part = *transfer_->part;
  Answer answer{.to = reply_to, .bytes = encode_answer(request.transfer, number, part.pieces[number])};
  counters_.bytes += answer.bytes.size();
  if (number + 1 == part.pieces.size() && !std::exchange(transfer_->is_complete, true)) {
    ++counters_.parts;
    counters_.blocks += part.blocks;
  }
  return answer;
}

PartGiver::Answer PartGiver::head(const std::string& reply_to) const {
  const ExportedPart& part = *transfer_->part;
  return {.to = reply_to,
          .bytes = encode(IndexAnswer{.transfer = transfer_->id,
                                      .what = PartHead{.worker = transfer_->worker,
                                                       .position = part.position,
                                                       .blocks = part.blocks,
                                                       .pieces = static_cast<std::uint32_t>(part.pieces.size())}})};
}

PartGiver::Answer PartGiver::refuse(PartRefusal refusal, TransferId transfer, const std::string& reply_to) {
  ++counters_.refused[static_cast<std::size_t>(refusal)];
  return {.to = reply_to, .bytes = encode(IndexAnswer{.transfer = transfer, .what = refusal})};
}

bool PartGiver::is_current(const IndexRequest& request) const {
  return transfer_ && transfer_->gateway == request.gateway && transfer_->run == request.run &&
         transfer_->id == request.transfer;
}

void PartGiver::expire(TimePoint now) {
  if (transfer_ && transfer_->part && now - transfer_->touched > kPatience) transfer_.reset();
}

}  // namespace kvist::peering
