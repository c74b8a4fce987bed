#include "kvist/peering/peer_table.h"

#include <algorithm>
#include <variant>

#include "kvist/peering/message_codec.h"

namespace kvist::peering {
namespace {

/// How often the fleet is looked through for a worker that is not known: hostile messages may name any number.
constexpr auto kLookAgain = std::chrono::milliseconds(100);

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

}  // namespace

bool PeerTable::on_message(std::span<const std::uint8_t> bytes, TimePoint now) {
  ++counters_.messages;
  counters_.bytes += bytes.size();
  const Result<Message> message = decode(bytes);
  if (!message) {
    ++counters_.unreadable;
    return false;
  }
  bool is_new = false;
  Told* const peer = sender(*message, is_new, now);
  if (peer == nullptr) return false;
  for (const Event& event : message->events) {
    if (std::holds_alternative<Goodbye>(event)) {
      give_up(*peer, now);
      peers_.erase(message->gateway);
      return false;
    }
    apply(*peer, event, now);
  }
  return is_new;
}

PeerTable::Told* PeerTable::sender(const Message& message, bool& is_new, TimePoint now) {
  if (message.gateway == name_) {
    ++counters_.namesakes;
    return nullptr;
  }
  auto found = peers_.find(message.gateway);
  if (found == peers_.end()) {
    if (peers_.size() == kMostPeers) {
      ++counters_.crowd;
      return nullptr;
    }
    found = peers_.emplace(message.gateway, Told{.run = message.run}).first;
    is_new = true;
  }
  Told& peer = found->second;
  if (message.run > peer.run) {
    give_up(peer, now);
    peer = {.run = message.run};
    is_new = true;
  }
  if (message.run < peer.run || message.sequence <= peer.sequence) {
    ++counters_.late;
    return nullptr;
  }
  if (!is_new) counters_.lost += message.sequence - peer.sequence - 1;
  peer.sequence = message.sequence;
  peer.heard = now;
  return &peer;
}

void PeerTable::apply(Told& peer, const Event& event, TimePoint now) {
  const auto find = [&](AttemptId attempt, const auto& then) {
    if (const auto found = peer.requests.find(attempt); found != peer.requests.end()) then(found);
  };
  std::visit(Overloaded{[&](const Routed& routed) {
                          ++counters_.requests;
                          put(peer, routed, now);
                        },
                        [&](const FirstToken& first) {
                          find(first.attempt, [&](auto found) {
                            move_on(found->second, true, found->second.told.output_tokens, now);
                          });
                        },
                        [&](const Progress& progress) {
                          find(progress.attempt, [&](auto found) {
                            move_on(found->second, found->second.told.decoding, progress.output_tokens, now);
                          });
                        },
                        [&](const Ended& ended) {
                          find(ended.attempt, [&](auto found) {
                            move_on(found->second, found->second.told.decoding, ended.output_tokens, now);
                            end(peer, found, ended.completed, now);
                          });
                        },
                        [&](const State& state) { apply(peer, state, now); }, [](const Goodbye&) {},
                        [&](const Refused& refused) {
                          // The difference is right where the number has begun anew.
                          counters_.refused += refused.requests - peer.refused.value_or(refused.requests);
                          peer.refused = refused.requests;
                        },
                        [&](const Heard& heard) {
                          if (on_heard_ && heard.gateway == gateway_key(name_)) on_heard_(heard, now);
                        }},
             event);
}

// Both lists are in order, so that one pass finds what is only in one of them.
void PeerTable::apply(Told& peer, const State& state, TimePoint now) {
  auto known = peer.requests.upper_bound(state.after);
  for (const Routed& told : state.requests) {
    while (known != peer.requests.end() && known->first < told.attempt) {
      known = end(peer, known, false, now);
      ++counters_.repaired;
    }
    if (known == peer.requests.end() || known->first != told.attempt) {
      put(peer, told, now);
      ++counters_.repaired;
      continue;
    }
    Request& request = known->second;
    if (router_->find(request.handle) == nullptr) book(peer, request, nullptr, now);
    if (told.decoding && !request.told.decoding) ++counters_.repaired;
    move_on(request, told.decoding, told.output_tokens, now);
    ++known;
  }
  while (known != peer.requests.end() && known->first <= state.until) {
    known = end(peer, known, false, now);
    ++counters_.repaired;
  }
}

void PeerTable::put(Told& peer, const Routed& routed, TimePoint now) {
  if (peer.requests.size() == kMostRequests) {
    ++counters_.overflow;
    return;
  }
  const auto [place, is_new] = peer.requests.emplace(routed.attempt, Request{.told = routed});
  if (!is_new) return;
  Request& request = place->second;
  request.told.blocks = nullptr;
  request.told.decoding = false;
  request.told.output_tokens = 0;
  book(peer, request, routed.blocks, now);
  move_on(request, routed.decoding, routed.output_tokens, now);
}

// A worker that is not known here yet may be found later: the next state tries again.
void PeerTable::book(Told& peer, Request& request, const routing::BlockKeys& blocks, TimePoint now) {
  const std::optional<WorkerId> worker = find_worker(request.told.worker, now);
  if (!worker) return;
  const Routed& told = request.told;
  const std::size_t size = routing::view(blocks).size();
  peer.blocks -= std::exchange(request.blocks, 0);  // where it is booked a second time
  const bool has_room = peer.blocks + size <= kMostBlocks;
  request.handle = router_->on_peer_routed({.worker = *worker,
                                            .prompt_tokens = told.prompt_tokens,
                                            .uncached_tokens = told.uncached_tokens,
                                            .known_tokens = told.known_tokens,
                                            .own_blocks = told.own_blocks,
                                            .new_blocks = told.new_blocks,
                                            .streams = told.streams,
                                            .choices = told.choices,
                                            .late = delay_,
                                            .session = told.session,
                                            .blocks = has_room ? blocks : nullptr},
                                           fleet_->views()[worker->value()], now);
  request.blocks = has_room ? size : 0;
  peer.blocks += request.blocks;
  // What it was told to have done so far, where it is booked a second time.
  if (told.decoding) router_->on_first_token(request.handle, now);
  if (told.output_tokens > 0) router_->on_progress(request.handle, told.output_tokens, now);
}

void PeerTable::move_on(Request& request, bool decoding, std::uint64_t output_tokens, TimePoint now) {
  if (decoding && !request.told.decoding) router_->on_first_token(request.handle, now);
  request.told.decoding = request.told.decoding || decoding;
  if (output_tokens <= request.told.output_tokens) return;
  router_->on_progress(request.handle, output_tokens - request.told.output_tokens, now);
  request.told.output_tokens = output_tokens;
}

PeerTable::Requests::iterator PeerTable::end(Told& peer, Requests::iterator request, bool completed, TimePoint now) {
  router_->on_finished(request->second.handle, completed, now);
  peer.blocks -= request->second.blocks;
  return peer.requests.erase(request);
}

void PeerTable::give_up(Told& peer, TimePoint now) {
  for (auto request = peer.requests.begin(); request != peer.requests.end();) request = end(peer, request, false, now);
}

void PeerTable::expire(TimePoint now) {
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    if (now - peer->second.heard <= patience_) {
      ++peer;
      continue;
    }
    give_up(peer->second, now);
    peer = peers_.erase(peer);
  }
}

void PeerTable::clear(TimePoint now) {
  for (auto& [name, peer] : peers_) give_up(peer, now);
  peers_.clear();
}

bool PeerTable::is_at(WorkerKey key, WorkerId worker) const {
  return !fleet_->is_vacant(worker) && worker_key(fleet_->worker(worker).name) == key;
}

std::optional<WorkerId> PeerTable::find_worker(WorkerKey key, TimePoint now) {
  if (const auto found = workers_.find(key); found != workers_.end() && is_at(key, found->second)) return found->second;
  if (workers_as_of_ && now - *workers_as_of_ < kLookAgain) return std::nullopt;
  workers_as_of_ = now;
  workers_.clear();
  for (std::uint32_t i = 0; i < fleet_->size(); ++i)
    if (!fleet_->is_vacant(WorkerId(i))) workers_.emplace(worker_key(fleet_->worker(WorkerId(i)).name), WorkerId(i));
  const auto found = workers_.find(key);
  return found == workers_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<PeerTable::Peer> PeerTable::peers() const {
  std::vector<Peer> peers;
  for (const auto& [name, told] : peers_) {
    const auto booked = static_cast<std::size_t>(std::ranges::count_if(told.requests, [this](const auto& request) {
      return std::as_const(*router_).find(request.second.handle) != nullptr;
    }));
    peers.push_back({.name = name,
                     .run = told.run,
                     .requests = booked,
                     .elsewhere = told.requests.size() - booked,
                     .blocks = told.blocks,
                     .heard = told.heard});
  }
  return peers;
}

std::vector<Heard> PeerTable::heard(TimePoint now) const {
  std::vector<Heard> heard;
  for (const auto& [name, told] : peers_) {
    heard.push_back(
        {.gateway = gateway_key(name), .run = told.run, .sequence = told.sequence, .held = now - told.heard});
  }
  return heard;
}

std::size_t PeerTable::requests_at(WorkerId worker) const {
  std::size_t there = 0;
  for (const auto& [name, told] : peers_) {
    for (const auto& [attempt, request] : told.requests) {
      const routing::RoutedRequest* const routed = std::as_const(*router_).find(request.handle);
      if (routed != nullptr && routed->worker == worker) ++there;
    }
  }
  return there;
}

}  // namespace kvist::peering
