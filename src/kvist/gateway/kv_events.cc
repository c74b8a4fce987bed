#include "kvist/gateway/kv_events.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

/// How late routing may hear of changes that it need not follow at once.
constexpr Duration kNewsTime = std::chrono::milliseconds(2);

class MutexGate final : public routing::PromptsUnderWay::Gate {
 public:
  void enter() override { mutex_.lock(); }
  void leave() override { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

}  // namespace

/// The feeds' loop with its thread, and the way from there to routing.
class KvEvents::OwnThread {
 public:
  OwnThread(KvEvents& owner, std::size_t workers)
      : board_(std::make_shared<Board>(workers, owner)),
        home_(owner.home_),
        timer_(std::make_unique<net::Timer>(loop_)),
        exact_(workers) {}
  ~OwnThread() { board_->owner = nullptr; }
  OwnThread(const OwnThread&) = delete;
  OwnThread& operator=(const OwnThread&) = delete;

  [[nodiscard]] net::EventLoop& loop() { return loop_; }
  void start() {
    thread_ = std::thread([this] { loop_.run(); });
  }
  /// Has the thread call `work` last of all.
  void stop(std::function<void()> work) {
    if (!thread_.joinable()) return work();
    loop_.post([this, work = std::move(work)] {
      work();
      timer_.reset();
      loop_.stop();
    });
    thread_.join();
  }

  // On its thread.
  void tell(WorkerId worker, const KvFeedNews& news) {
    const bool urgent = news.index.begun_anew || news.index.cache_emptied || exact_.at(worker.value()) != news.exact;
    exact_[worker.value()] = news.exact;
    board_->news.add(worker, news);
    if (urgent) return send();
    if (std::exchange(timer_armed_, true)) return;
    timer_->arm(net::now() + kNewsTime, [this] { send(); });
  }
  void forget(WorkerId worker) { exact_[worker.value()] = false; }
  void send() {
    if (std::exchange(timer_armed_, false)) timer_->cancel();
    home_->post([board = board_] {
      if (board->owner == nullptr) return;
      for (const auto& [worker, news] : board->news.take()) board->owner->take(worker, news);
    });
  }
  /// Has routing's thread call `work`, unless the owner is gone by then.
  void post_home(std::function<void()> work) {
    home_->post([board = board_, work = std::move(work)] {
      if (board->owner != nullptr) work();
    });
  }

 private:
  struct Board {
    Board(std::size_t workers, KvEvents& of) : news(workers), owner(&of) {}
    KvNewsBoard news;
    KvEvents* owner;  // null once it is gone; routing's thread only
  };

  std::shared_ptr<Board> board_;
  net::EventLoop* home_;
  net::EventLoop loop_;
  std::unique_ptr<net::Timer> timer_;  // of news that can wait
  bool timer_armed_ = false;
  std::vector<bool> exact_;  // as told last, by WorkerId
  std::thread thread_;
};

routing::PromptsUnderWay::MakeGate KvEvents::make_gate(bool own_thread) {
  if (!own_thread) return nullptr;
  return [] { return std::make_unique<MutexGate>(); };
}

KvEvents::KvEvents(net::EventLoop& home, routing::Router& router, std::size_t workers, bool own_thread)
    : home_(&home), router_(&router), exact_(workers), lost_(workers), feeds_(workers) {
  shared_.index = &router.event_index();
  shared_.loop = &home;
  if (!own_thread) return;
  thread_ = std::make_unique<OwnThread>(*this, workers);
  shared_.loop = &thread_->loop();
  router.on_wrong_place([loop = shared_.loop, index = shared_.index](WorkerId worker, kv::ExternalHash parent) {
    loop->post([index, worker, parent] { index->revoke(worker, parent); });
  });
}

KvEvents::~KvEvents() {
  if (!thread_) return;
  router_->on_wrong_place([](WorkerId, kv::ExternalHash) {});
  thread_->stop([this] { feeds_.clear(); });
}

Result<void> KvEvents::connect(const std::vector<spec::UpstreamSpec>& workers) {
  for (std::uint32_t i = 0; i < workers.size(); ++i) KVIST_TRY_VOID(subscribe(WorkerId(i), workers[i]));
  if (thread_) thread_->start();
  return {};
}

Result<void> KvEvents::subscribe(WorkerId worker, const spec::UpstreamSpec& upstream) {
  if (upstream.kv_events.empty()) return {};
  if (receiver_ == nullptr) receiver_ = net::ZmqReceiver::create();
  KVIST_TRY(feeds_[worker.value()],
            KvEventFeed::connect(*receiver_, shared_, worker, upstream, [this, worker](const KvFeedNews& news) {
              if (thread_) return thread_->tell(worker, news);
              take(worker, news);
            }));
  return {};
}

void KvEvents::add(WorkerId worker, const spec::UpstreamSpec& upstream) {
  on_feeds([this, worker, upstream] {
    if (const auto subscribed = subscribe(worker, upstream); !subscribed)
      telemetry::log_error("kv-events", fmt::format("{}: {}", upstream.name, subscribed.error().message));
  });
}

void KvEvents::end(WorkerId worker) {
  feeds_[worker.value()].reset();
  shared_.index->forget(worker);
  if (thread_) thread_->forget(worker);
}

void KvEvents::forget(WorkerId worker, std::function<void()> then) {
  on_feeds([this, worker, then = std::move(then)]() mutable {
    end(worker);
    const auto at_home = [this, worker, then = std::move(then)] {
      exact_[worker.value()] = false;
      const bool was_lost = lost_[worker.value()];
      lost_[worker.value()] = false;
      if (was_lost) on_lost_changed_(worker);
      then();
    };
    if (!thread_) return at_home();
    thread_->send();
    thread_->post_home(at_home);
  });
}

void KvEvents::take(WorkerId worker, const KvFeedNews& news) {
  router_->on_event_news(worker, news.index);
  const bool exact_changed = exact_[worker.value()] != news.exact;
  const bool lost_changed = lost_[worker.value()] != news.lost;
  exact_[worker.value()] = news.exact;
  lost_[worker.value()] = news.lost;
  if (exact_changed) on_exact_changed_(worker);
  if (lost_changed) on_lost_changed_(worker);
}

void KvEvents::on_published(WorkerId worker, std::uint64_t batches) {
  on_feed(worker, [batches](KvEventFeed& feed) { feed.on_published(batches); });
}

void KvEvents::on_worker_restarted(WorkerId worker) {
  on_feed(worker, [](KvEventFeed& feed) { feed.on_worker_restarted(); });
}

void KvEvents::on_feed(WorkerId worker, std::function<void(KvEventFeed&)> work) {
  on_feeds([this, worker, work = std::move(work)] {
    // A handler of the feed may end it.
    if (const auto feed = feeds_[worker.value()]) work(*feed);
  });
}

void KvEvents::on_feeds(std::function<void()> work) {
  if (!thread_) return work();
  thread_->loop().post(std::move(work));
}

void KvEvents::export_part(WorkerId worker, KvEventFeed::Exported then) {
  on_feeds([this, worker, then = std::move(then)]() mutable {
    // A std::function is copied, and what it would copy here is large.
    auto done = [this, then = std::move(then)](std::variant<peering::PartRefusal, peering::ExportedPart> result) {
      at_home([then, result = std::make_shared<decltype(result)>(std::move(result))] { then(std::move(*result)); });
    };
    const auto feed = feeds_[worker.value()];
    if (!feed) return done(peering::PartRefusal::kNotExact);
    feed->export_part(std::move(done));
  });
}

void KvEvents::import_part(WorkerId worker, std::shared_ptr<const peering::WorkerPart> part,
                           std::function<void(const std::string& problem)> then) {
  on_feeds([this, worker, part = std::move(part), then = std::move(then)]() mutable {
    auto done = [this, then = std::move(then)](std::string_view problem) {
      // Routing hears first of what the part has changed.
      if (thread_) thread_->send();
      at_home([then, problem = std::string(problem)] { then(problem); });
    };
    const auto feed = feeds_[worker.value()];
    if (!feed) return done("gone");
    feed->import_part(std::move(part), std::move(done));
  });
}

void KvEvents::keep_frames(WorkerId worker, bool keep) {
  on_feed(worker, [keep](KvEventFeed& feed) { feed.keep_frames(keep); });
}

void KvEvents::at_home(std::function<void()> work) {
  if (!thread_) return work();
  thread_->post_home(std::move(work));
}

void KvEvents::report(std::function<void(const KvEventsReport&)> then) {
  if (!thread_) return then(make_report());
  thread_->loop().post([this, then = std::move(then)]() mutable {
    thread_->send();
    thread_->post_home([then = std::move(then), report = make_report()] { then(report); });
  });
}

KvEventsReport KvEvents::make_report() const {
  const kv_index::KvIndex& index = shared_.index->index();
  KvEventsReport report{.workers = std::vector<KvEventsReport::Worker>(exact_.size()),
                        .index_bytes = index.bytes(),
                        .index_keys = index.keys(),
                        .index_evictions = index.evictions()};
  for (std::uint32_t i = 0; i < feeds_.size(); ++i) {
    KvEventsReport::Worker& worker = report.workers[i];
    if (feeds_[i]) worker.feed = feeds_[i]->report();
    worker.blocks = index.worker_blocks(WorkerId(i));
    for (std::size_t tier = 0; tier < kv_index::kLowerTiers; ++tier)
      worker.lower_tier_blocks[tier] = index.worker_blocks(WorkerId(i), static_cast<kv::Medium>(tier + 1));
    worker.index = index.counters(WorkerId(i));
  }
  return report;
}

}  // namespace kvist::gateway
