#include "kvist/sweep/load_generator.h"

#include <utility>

namespace kvist::sweep {
namespace {

constexpr std::chrono::seconds kAnswerTimeout(30);

}  // namespace

template <class Work>
auto LoadGenerator::on_loop(Work work) -> Result<decltype(work())> {
  using Value = decltype(work());
  // Shared, because the loop may still run it after the wait below was given up.
  const auto promise = std::make_shared<std::promise<Value>>();
  auto answer = promise->get_future();
  loop_.post([promise, work = std::move(work)]() mutable { promise->set_value(work()); });
  if (answer.wait_for(kAnswerTimeout) != std::future_status::ready) {
    return fail(ErrorCode::kDeadlineExceeded, "the load generator's loop does not answer");
  }
  return answer.get();
}

Result<std::unique_ptr<LoadGenerator>> LoadGenerator::create(loadgen::ServiceOptions options,
                                                             std::shared_ptr<loadgen::LoadWatch> watch) {
  std::unique_ptr<LoadGenerator> generator(new LoadGenerator);
  LoadGenerator& self = *generator;
  self.thread_ = std::thread([&loop = self.loop_] { loop.run(); });
  KVIST_TRY(Result<void> made, self.on_loop([&self, options = std::move(options)]() mutable -> Result<void> {
    KVIST_TRY(self.service_, loadgen::Service::create(self.loop_, std::move(options)));
    return {};
  }));
  KVIST_TRY_VOID(std::move(made));
  self.watch_ = std::move(watch);
  if (self.watch_) self.watch_->attach(self.loop_, *self.service_);
  return generator;
}

LoadGenerator::~LoadGenerator() {
  if (watch_) watch_->detach();
  loop_.post([this] {
    service_.reset();
    loop_.stop();
  });
  thread_.join();
}

Result<void> LoadGenerator::start(std::uint32_t concurrency, std::uint64_t seed) {
  KVIST_TRY(Result<void> started, on_loop([=, this] { return service_->start(concurrency, seed); }));
  return started;
}

Result<void> LoadGenerator::raise(std::uint32_t concurrency) {
  KVIST_TRY(Result<void> raised, on_loop([=, this] { return service_->raise(concurrency); }));
  return raised;
}

std::future<void> LoadGenerator::stop(bool drain) {
  const auto promise = std::make_shared<std::promise<void>>();
  loop_.post([this, promise, drain] { service_->stop(drain, [promise] { promise->set_value(); }); });
  return promise->get_future();
}

Result<std::uint32_t> LoadGenerator::in_flight() {
  return on_loop([this] { return service_->in_flight(); });
}

Result<workload::Snapshot> LoadGenerator::snapshot() {
  return on_loop([this] { return service_->snapshot(); });
}

Result<loadgen::ClientLoad> LoadGenerator::client_load() {
  return on_loop([this] { return service_->client_load(); });
}

Result<std::vector<workload::TurnSample>> LoadGenerator::take_samples() {
  return on_loop([this] { return service_->take_samples(); });
}

}  // namespace kvist::sweep
