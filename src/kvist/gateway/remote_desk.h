// The way from a loop of its own thread to routing, in batches.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kvist/base/slot_table.h"
#include "kvist/gateway/routing_desk.h"
#include "kvist/net/event_loop.h"

namespace kvist::gateway {

/// The thread that routing is on, as other threads see it: they may only post to it, and what comes when routing is
/// gone is dropped there.
struct RoutingThread {
  net::EventLoop* loop = nullptr;
  LocalDesk* desk = nullptr;          ///< null once routing is gone; its own thread only
  std::atomic<bool> has_room = true;  ///< as of the last batch
};

/// Writes down what its loop tells and sends it on as one message: at once where a request waits for the answer, a few
/// milliseconds later otherwise, so that relaying a token touches no other thread. Answers come back as one message per
/// batch. Bounded by the requests of its loop and kMostNotes.
class RemoteDesk final : public RoutingDesk {
 public:
  /// `loop`: the one that it is the desk of; outlives it, and answers that come later are dropped there.
  RemoteDesk(net::EventLoop& loop, std::shared_ptr<RoutingThread> routing);
  ~RemoteDesk() override;

  [[nodiscard]] bool has_room() const override { return routing_->has_room.load(std::memory_order_relaxed); }
  void start(dispatch::RequestProfile profile, Started then) override;
  void reroute(dispatch::DispatchHandle request, const dispatch::LifeActions& actions, Rerouted then) override;
  void on_trouble(dispatch::DispatchHandle request, const dispatch::LifeActions& actions) override;
  void on_first_token(routing::RequestHandle attempt, TimePoint at) override;
  void on_progress(routing::RequestHandle attempt, std::uint64_t tokens, TimePoint at) override;
  void on_whole_answer(routing::RequestHandle attempt, const routing::WholeAnswer& answer) override;
  void on_usage(routing::RequestHandle attempt, std::uint64_t prompt_tokens, std::uint64_t cached_tokens) override;
  void finish(dispatch::DispatchHandle request, dispatch::Outcome outcome) override;
  void doubt(WorkerId worker) override;

  /// What was written down goes at once: what is posted to routing behind it finds it there.
  void send();

 private:
  /// Who waits for an answer. It never leaves its thread: messages carry its handle.
  struct Asked {
    Started started;
    Rerouted rerouted;
  };
  using AskedHandle = SlotHandle<Asked>;

  struct StartNote {
    dispatch::RequestProfile profile;
    AskedHandle asked;
  };
  struct RerouteNote {
    dispatch::DispatchHandle request;
    dispatch::LifeActions actions;
    AskedHandle asked;
  };
  struct TroubleNote {
    dispatch::DispatchHandle request;
    dispatch::LifeActions actions;
  };
  struct FirstTokenNote {
    routing::RequestHandle attempt;
    TimePoint at;
  };
  struct ProgressNote {
    routing::RequestHandle attempt;
    std::uint64_t tokens = 0;
    TimePoint at;
  };
  struct WholeAnswerNote {
    routing::RequestHandle attempt;
    routing::WholeAnswer answer;
  };
  struct UsageNote {
    routing::RequestHandle attempt;
    std::uint64_t prompt_tokens = 0;
    std::uint64_t cached_tokens = 0;
  };
  struct FinishNote {
    dispatch::DispatchHandle request;
    dispatch::Outcome outcome = dispatch::Outcome::kCompleted;
  };
  struct DoubtNote {
    WorkerId worker;
  };
  using Note = std::variant<ProgressNote, FirstTokenNote, WholeAnswerNote, UsageNote, FinishNote, DoubtNote, StartNote,
                            RerouteNote, TroubleNote>;

  /// What comes back.
  struct Answers {
    std::vector<std::pair<AskedHandle, Result<dispatch::Ticket>>> started;
    std::vector<std::pair<AskedHandle, std::optional<routing::Decision>>> rerouted;
    [[nodiscard]] bool empty() const { return started.empty() && rerouted.empty(); }
  };

  static constexpr std::size_t kMostNotes = 1'024;
  static constexpr Duration kBatchTime = std::chrono::milliseconds(2);

  void write_down(Note note, bool urgent);
  /// On the thread of routing.
  [[nodiscard]] static Answers take(LocalDesk& desk, std::vector<Note>& notes);
  /// On this loop.
  void give(Answers answers);

  net::EventLoop* loop_;
  std::shared_ptr<RoutingThread> routing_;
  std::shared_ptr<RemoteDesk*> self_;  // null where it is gone: answers under way look at it, on this loop
  std::vector<Note> notes_;
  SlotTable<Asked> asked_;
  net::Timer timer_;
  bool timer_armed_ = false;
  bool sending_soon_ = false;
};

}  // namespace kvist::gateway
