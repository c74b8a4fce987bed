// A fleet in virtual time under an open load of several clients, for tests of admission: dispatcher, router and engines
// as they are, and nothing else.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kvist/base/random.h"
#include "kvist/dispatch/dispatcher.h"
#include "kvist/engine/timed/timed_engine.h"
#include "kvist/kv/block_hash.h"
#include "kvist/spec/deployment.h"
#include "kvist/tokenizer/tokenizer.h"

namespace kvist::simulation {

/// A client's requests: so many per second, at exponential gaps.
struct OverloadClient {
  double per_second = 0;
  dispatch::AdmissionProfile profile = {};
  Duration from{};
  Duration to = std::chrono::hours(1);
  std::uint32_t at_once = 0;  ///< so many at `from`, in place of a rate
};

struct OverloadRequest {
  std::size_t client = 0;
  TimePoint arrived;
  std::optional<TimePoint> first_token;
  std::optional<TimePoint> ended;
  std::optional<dispatch::Refusal> refused;

  [[nodiscard]] double ttft_s() const { return to_seconds(*first_token - arrived); }
};

/// Times are on one axis: arrivals, ends of steps.
class OverloadRig {
 public:
  struct Options {
    spec::RoutingMode mode = spec::RoutingMode::kKv;
    std::optional<spec::AdmissionSpec> admission = spec::AdmissionSpec{};
    std::uint32_t reported_slots = 16;  ///< that the gateway is told of; 0: not told
    std::uint32_t slots = 16;
    std::uint32_t prompt_tokens = 640;
    double output_tokens = 80;
    std::uint32_t max_tokens = 1'000;  ///< the engine reserves memory for so many
    spec::StepTimeSpec step_time = {};
    std::uint64_t seed = 1;
    std::uint32_t workers = 3;
    std::uint32_t kv_blocks = spec::WorkerSpec{}.kv_blocks;
    Duration check_every{};  ///< Dispatcher::check(); 0: never
  };

  OverloadRig(const Options& options, std::vector<OverloadClient> clients)
      : options_(options),
        clients_(std::move(clients)),
        fleet_(names_of(options.workers), {}),
        router_({.model = "m", .block_size = kBlock, .workers = options.workers, .mode = options.mode, .seed = 1}),
        dispatcher_({.max_in_flight = 100'000, .admission = options.admission}, fleet_, router_) {
    spec::WorkerSpec worker;
    worker.block_size = kBlock;
    worker.max_batch_size = options.slots;
    worker.kv_blocks = options.kv_blocks;
    worker.max_waiting = 100'000;
    worker.step_time = options.step_time;
    worker.output_length = {.mean_tokens = options.output_tokens,
                            .standard_deviation_tokens = options.output_tokens / 4};
    for (std::uint32_t i = 0; i < options_.workers; ++i) {
      engines_.push_back(std::move(*engine::make_timed_engine(worker, tokenizer_)));
      fleet_.set_limits(WorkerId(i), {.block_size = kBlock,
                                      .kv_blocks = worker.kv_blocks,
                                      .max_batch_size = options.reported_slots,
                                      .max_num_tokens = worker.max_num_tokens});
      fleet_.set_events_exact(WorkerId(i), true);
      fleet_.on_success(WorkerId(i), now_);
    }
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      streams_.emplace_back(mix_seed({options.seed, i}));
      next_.push_back(TimePoint{} + clients_[i].from);
      if (clients_[i].at_once == 0) await_next(i);
    }
  }

  /// Runs for so long, and then until everything that was admitted has ended.
  void run(Duration duration) { run(duration, TimePoint::max()); }
  /// Runs for so long, and leaves what is under way.
  void run_until(Duration duration) { run(duration, TimePoint{} + duration); }

  [[nodiscard]] const std::vector<OverloadRequest>& requests() const { return requests_; }
  [[nodiscard]] const dispatch::Dispatcher& dispatcher() const { return dispatcher_; }
  [[nodiscard]] const routing::Router& router() const { return router_; }
  /// Requests that arrived while a worker had nothing to do, and were refused nevertheless.
  [[nodiscard]] std::uint64_t refused_while_idle() const { return refused_while_idle_; }

  /// Those of a client that arrived within a time.
  [[nodiscard]] std::vector<const OverloadRequest*> arrived(std::size_t client, Duration from, Duration to) const {
    std::vector<const OverloadRequest*> found;
    for (const OverloadRequest& request : requests_) {
      const Duration at = request.arrived.time_since_epoch();
      if (request.client == client && at >= from && at < to) found.push_back(&request);
    }
    return found;
  }
  /// Requests that ended within a time, per second, with a first token within `slo_s`.
  [[nodiscard]] double goodput(double slo_s, Duration from, Duration to) const {
    const auto good = std::ranges::count_if(requests_, [&](const OverloadRequest& request) {
      return request.ended && *request.ended >= TimePoint{} + from && *request.ended < TimePoint{} + to &&
             request.ttft_s() <= slo_s;
    });
    return static_cast<double>(good) / to_seconds(to - from);
  }
  /// A quantile of the times to first token of those that were admitted within a time; 0 without any.
  [[nodiscard]] double ttft_s(double quantile, Duration from, Duration to,
                              std::optional<std::size_t> client = std::nullopt) const {
    std::vector<double> times;
    for (const OverloadRequest& request : requests_) {
      const Duration at = request.arrived.time_since_epoch();
      if (request.first_token && at >= from && at < to && (!client || request.client == *client))
        times.push_back(request.ttft_s());
    }
    if (times.empty()) return 0;
    std::ranges::sort(times);
    return times[static_cast<std::size_t>(quantile * static_cast<double>(times.size() - 1))];
  }

 private:
  static constexpr std::uint32_t kBlock = 32;
  struct Live {
    std::size_t request = 0;
    dispatch::Ticket ticket;
  };

  static std::vector<std::string> names_of(std::uint32_t workers) {
    std::vector<std::string> names;
    for (std::uint32_t i = 0; i < workers; ++i) names.push_back("worker-" + std::to_string(i));
    return names;
  }

  void run(Duration arrivals, TimePoint stop) {
    const TimePoint end = TimePoint{} + arrivals;
    while (true) {
      std::optional<TimePoint> next;
      for (const auto& engine : engines_)
        if (const auto wakeup = engine->next_wakeup(); wakeup && (!next || *wakeup < *next)) next = wakeup;
      const auto client = static_cast<std::size_t>(std::ranges::min_element(next_) - next_.begin());
      if (std::min(next.value_or(TimePoint::max()), next_[client]) > stop) return pass_to(stop);
      if (next_[client] <= end && (!next || next_[client] < *next)) {
        pass_to(next_[client]);
        arrive(client);
      } else if (next) {
        pass_to(*next);
        for (std::uint32_t i = 0; i < options_.workers; ++i) poll(i);
      } else {
        return;
      }
    }
  }

  void pass_to(TimePoint time) {
    while (options_.check_every > Duration::zero() && checked_ + options_.check_every <= time) {
      checked_ += options_.check_every;
      (void)dispatcher_.check(checked_);
    }
    now_ = time;
  }

  void await_next(std::size_t client) {
    const OverloadClient& of = clients_[client];
    if (of.at_once > 0) {
      next_[client] = TimePoint::max();
      return;
    }
    next_[client] += from_seconds(streams_[client].exponential(1 / of.per_second));
    if (next_[client] >= TimePoint{} + of.to) next_[client] = TimePoint::max();
  }

  void arrive(std::size_t client) {
    const std::uint32_t count = std::max(1U, clients_[client].at_once);
    for (std::uint32_t i = 0; i < count; ++i) begin(client);
    await_next(client);
  }

  // Half of each prompt is one of eight beginnings, so that caches matter.
  std::vector<TokenId> prompt(RandomStream& stream) const {
    std::vector<TokenId> tokens(options_.prompt_tokens);
    const auto beginning = static_cast<std::uint32_t>(stream.uniform_int(0, 7));
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = i < tokens.size() / 2 ? TokenId(beginning) : TokenId(stream.next() % 256);
    return tokens;
  }

  void begin(std::size_t client) {
    requests_.push_back({.client = client, .arrived = now_, .first_token = {}, .ended = {}, .refused = {}});
    std::vector<TokenId> tokens = prompt(streams_[client]);
    const kv::BlockHash root = kv::root_hash({.model = "m", .lora = "", .cache_salt = ""});
    const auto ticket = dispatcher_.start(
        {.prompt_tokens = static_cast<std::uint32_t>(tokens.size()),
         .blocks = std::make_shared<const std::vector<kv::BlockHash>>(kv::hash_blocks(root, tokens, kBlock)),
         .streams = true,
         .admission = clients_[client].profile},
        now_);
    if (!ticket) {
      requests_.back().refused = ticket.error();
      for (std::uint32_t i = 0; i < options_.workers; ++i)
        refused_while_idle_ += router_.loads().load(WorkerId(i)).requests == 0 ? 1 : 0;
      return;
    }
    const RequestId id(++last_id_);
    live_[id] = {.request = requests_.size() - 1, .ticket = *ticket};
    engine::Request request;
    request.id = id;
    request.prompt = std::move(tokens);
    request.max_tokens = options_.max_tokens;
    request.seed = id.value();
    const std::uint32_t worker = ticket->decision.worker.value();
    EXPECT_TRUE(engines_[worker]->submit(std::move(request), now_));
    poll(worker);
  }

  void poll(std::uint32_t worker) {
    const engine::StepOutputs outputs = engines_[worker]->poll(now_);
    for (const engine::RequestOutput& output : outputs.outputs) take(output);
    router_.on_kv_events(WorkerId(worker), outputs.events);
  }

  void take(const engine::RequestOutput& output) {
    const auto found = live_.find(output.id);
    const Live& live = found->second;
    OverloadRequest& request = requests_[live.request];
    if (!request.first_token) {
      request.first_token = now_;
      dispatcher_.on_first_token(live.ticket.decision.request, now_);
    }
    dispatcher_.on_progress(live.ticket.decision.request, 1, now_);
    if (!output.finish) return;
    dispatcher_.on_usage(live.ticket.decision.request, output.prompt_tokens, output.cached_tokens);
    request.ended = now_;
    dispatcher_.finish(live.ticket.handle, dispatch::Outcome::kCompleted, now_);
    live_.erase(found);
  }

  Options options_;
  std::vector<OverloadClient> clients_;
  std::vector<RandomStream> streams_;
  std::vector<TimePoint> next_;  // by client
  tokenizer::ByteTokenizer tokenizer_;
  dispatch::Fleet fleet_;
  routing::Router router_;
  dispatch::Dispatcher dispatcher_;
  std::vector<std::unique_ptr<engine::EngineDriver>> engines_;
  std::map<RequestId, Live> live_;
  std::vector<OverloadRequest> requests_;
  std::uint64_t last_id_ = 0;
  std::uint64_t refused_while_idle_ = 0;
  TimePoint now_{};
  TimePoint checked_{};
};

}  // namespace kvist::simulation
