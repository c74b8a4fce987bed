#include "kvist/gateway/index_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "kvist/kv/block_hash.h"
#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

kv::BlockHash plain_root(const ModelParts& parts) {
  return kv::root_hash({.model = parts.spec.model, .lora = "", .cache_salt = ""});
}

std::optional<WorkerId> find_worker(const ModelParts& parts, peering::WorkerKey key) {
  for (std::uint32_t i = 0; i < parts.fleet.size(); ++i) {
    const WorkerId worker(i);
    if (parts.is_watched(worker) && peering::worker_key(parts.fleet.worker(worker).name) == key) return worker;
  }
  return std::nullopt;
}

}  // namespace

IndexExchange::IndexExchange(net::EventLoop& loop, PeerLink& link, ModelParts& parts)
    : link_(&link),
      parts_(&parts),
      model_(peer_key(parts.spec.model)),
      taker_(link.name(), link.run(), parts.spec.block_size, plain_root(parts)),
      giver_(parts.spec.block_size, plain_root(parts),
             [&parts](peering::WorkerKey key) { return find_worker(parts, key); }),
      timer_(loop) {
  parts.events.on_lost_changed([this](WorkerId worker) { on_lost_changed(worker); });
}

IndexExchange::~IndexExchange() {
  parts_->events.on_lost_changed([](WorkerId) {});
}

void IndexExchange::set_gateways(std::vector<std::string> names) {
  taker_.set_gateways(std::move(names), net::now());
  obey(taker_.poll(net::now()));
}

void IndexExchange::on_lost_changed(WorkerId worker) {
  if (parts_->events.lost(worker))
    taker_.want(worker, peering::worker_key(parts_->fleet.worker(worker).name), net::now());
  else
    taker_.leave(worker);
  obey(taker_.poll(net::now()));
}

void IndexExchange::on_request(std::span<const std::uint8_t> bytes, const std::string& reply_to) {
  obey(giver_.on_request(bytes, reply_to, net::now()));
  arm();
}

void IndexExchange::on_answer(std::span<const std::uint8_t> bytes) {
  obey(taker_.on_answer(bytes, net::now()));
}

template <class Then>
auto IndexExchange::if_alive(Then then) {
  return [then = std::move(then), alive = std::weak_ptr<bool>(alive_)](auto&& result) {
    if (!alive.expired()) then(std::forward<decltype(result)>(result));
  };
}

void IndexExchange::obey(const peering::PartTaker::Actions& actions) {
  using Taker = peering::PartTaker;
  bool is_unsent = false;
  for (const Taker::Action& action : actions) {
    if (const auto* const ask = std::get_if<Taker::Ask>(&action)) {
      is_unsent = !link_->ask(model_, ask->gateway, ask->bytes);
    } else if (const auto* const keep = std::get_if<Taker::KeepFrames>(&action)) {
      parts_->events.keep_frames(keep->worker, keep->keep);
    } else {
      const auto& import = std::get<Taker::Import>(action);
      parts_->events.import_part(
          import.worker, import.part,
          if_alive([this, head = import.part->head](const std::string& problem) { on_imported(head, problem); }));
    }
  }
  arm();
  // As if the server had said that nobody is there.
  if (is_unsent) obey(taker_.on_answer({}, net::now()));
}

void IndexExchange::on_imported(const peering::PartHead& head, const std::string& problem) {
  if (const auto current = taker_.current()) {
    const std::string& worker = parts_->fleet.worker(current->worker).name;
    telemetry::log_info(
        "peers",
        problem.empty()
            ? fmt::format("{}: {} blocks of its cache are known from {}, without events from {} on", worker,
                          head.blocks, current->gateway, head.position.next)
            : fmt::format("{}: what {} knows of its cache cannot be used: {}", worker, current->gateway, problem));
  }
  obey(taker_.on_imported(problem, net::now()));
}

void IndexExchange::obey(const peering::PartGiver::Action& action) {
  if (const auto* const answer = std::get_if<peering::PartGiver::Answer>(&action)) {
    link_->answer(answer->to, answer->bytes);
  } else if (const auto* const work = std::get_if<peering::PartGiver::Export>(&action)) {
    parts_->events.export_part(work->worker,
                               if_alive([this](std::variant<peering::PartRefusal, peering::ExportedPart> result) {
                                 obey(giver_.on_exported(std::move(result), net::now()));
                                 arm();
                               }));
  }
}

void IndexExchange::arm() {
  std::optional<TimePoint> due = taker_.due();
  const TimePoint drop_at = net::now() + peering::PartGiver::kPatience;
  if (giver_.is_giving()) due = due ? std::min(*due, drop_at) : drop_at;
  if (!due) return timer_.cancel();
  timer_.arm(*due, [this] {
    giver_.expire(net::now());
    obey(taker_.poll(net::now()));
  });
}

}  // namespace kvist::gateway
