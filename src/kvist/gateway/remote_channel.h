// The channel from an I/O loop to the routing thread, in batches.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kvist/base/slot_table.h"
#include "kvist/gateway/routing_channel.h"
#include "kvist/net/event_loop.h"

namespace kvist::gateway {

/// The routing thread as other threads see it. They may only post to its loop; what arrives there after the end of
/// routing is dropped.
struct RoutingThread {
  net::EventLoop* loop = nullptr;
  LocalChannel* channel = nullptr;    ///< null after the end of routing; only for the routing thread
  std::atomic<bool> has_room = true;  ///< LocalChannel::has_room()
};

/// Queues messages and posts them to the routing thread in batches: soon if a request waits for the answer, otherwise
/// within a few milliseconds. So relaying a token touches no other thread. The answers to a batch come back in one
/// post. Memory is bounded by the requests of the loop and kMaxMessages.
class RemoteChannel final : public RoutingChannel {
 public:
  /// `loop` is the one that uses this channel; answers that arrive after the channel's end are dropped. Requires: it
  /// outlives this object.
  RemoteChannel(net::EventLoop& loop, std::shared_ptr<RoutingThread> routing);
  ~RemoteChannel() override;

  [[nodiscard]] bool has_room() const override { return routing_->has_room.load(std::memory_order_relaxed); }
  void start(dispatch::RequestProfile profile, Left left, Started then) override;
  void on_left(const Left& left) override;
  void reroute(dispatch::DispatchHandle request, const dispatch::LifeActions& actions, Rerouted then) override;
  void on_trouble(dispatch::DispatchHandle request, const dispatch::LifeActions& actions) override;
  void on_first_token(routing::RequestHandle attempt, TimePoint at) override;
  void on_progress(routing::RequestHandle attempt, std::uint64_t tokens, TimePoint at) override;
  void on_whole_answer(routing::RequestHandle attempt, const routing::WholeAnswer& answer) override;
  void on_usage(routing::RequestHandle attempt, std::uint64_t prompt_tokens, std::uint64_t cached_tokens) override;
  void on_reading(dispatch::DispatchHandle request, bool reads) override;
  void finish(dispatch::DispatchHandle request, dispatch::Outcome outcome) override;
  void doubt(WorkerId worker) override;

  /// Posts the queued messages now, so that they arrive before anything that is posted to routing after this call.
  void send();

 private:
  /// A caller that waits for an answer. It never leaves its thread: messages carry its handle.
  struct Asked {
    Started started;
    Rerouted rerouted;
  };
  using AskedHandle = SlotHandle<Asked>;

  struct StartMessage {
    dispatch::RequestProfile profile;
    Left left;
    AskedHandle asked;
  };
  struct LeftMessage {
    Left left;
  };
  struct RerouteMessage {
    dispatch::DispatchHandle request;
    dispatch::LifeActions actions;
    AskedHandle asked;
  };
  struct TroubleMessage {
    dispatch::DispatchHandle request;
    dispatch::LifeActions actions;
  };
  struct FirstTokenMessage {
    routing::RequestHandle attempt;
    TimePoint at;
  };
  struct ProgressMessage {
    routing::RequestHandle attempt;
    std::uint64_t tokens = 0;
    TimePoint at;
  };
  struct WholeAnswerMessage {
    routing::RequestHandle attempt;
    routing::WholeAnswer answer;
  };
  struct UsageMessage {
    routing::RequestHandle attempt;
    std::uint64_t prompt_tokens = 0;
    std::uint64_t cached_tokens = 0;
  };
  struct ReadingMessage {
    dispatch::DispatchHandle request;
    bool reads = false;
  };
  struct FinishMessage {
    dispatch::DispatchHandle request;
    dispatch::Outcome outcome = dispatch::Outcome::kCompleted;
  };
  struct DoubtMessage {
    WorkerId worker;
  };
  using Message = std::variant<ProgressMessage, FirstTokenMessage, WholeAnswerMessage, UsageMessage, FinishMessage,
                               DoubtMessage, StartMessage, LeftMessage, RerouteMessage, TroubleMessage, ReadingMessage>;

  /// The answers to a batch.
  struct Answers {
    std::vector<std::pair<AskedHandle, dispatch::Started>> started;
    std::vector<std::pair<AskedHandle, std::optional<routing::Decision>>> rerouted;
    [[nodiscard]] bool empty() const { return started.empty() && rerouted.empty(); }
  };

  using SendsLater = std::function<void(AskedHandle, const dispatch::Started&)>;

  static constexpr std::size_t kMaxMessages = 1'024;
  static constexpr Duration kBatchTime = std::chrono::milliseconds(2);

  void enqueue(Message message, bool urgent);
  /// Carries out a batch, and has what comes of held requests sent later. Threads: the routing thread.
  [[nodiscard]] static Answers take(LocalChannel& channel, std::vector<Message>& messages, const SendsLater& later);
  /// Passes the answers to their callers. Threads: this loop's.
  void give(Answers answers);

  net::EventLoop* loop_;
  std::shared_ptr<RoutingThread> routing_;
  std::shared_ptr<RemoteChannel*> self_;  // null after the end of this object; answers check it, on this loop
  std::vector<Message> messages_;
  SlotTable<Asked> asked_;
  net::Timer timer_;
  bool timer_armed_ = false;
  bool sending_soon_ = false;
};

}  // namespace kvist::gateway
