#include "kvist/sweep/load_generator.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

namespace kvist::sweep {

Result<std::unique_ptr<LoadGenerator>> LoadGenerator::create(loadgen::ServiceOptions options,
                                                             std::shared_ptr<loadgen::LoadWatch> watch) {
  std::unique_ptr<LoadGenerator> generator(new LoadGenerator);
  LoadGenerator& self = *generator;
  KVIST_TRY(Result<void> made, self.thread_.ask([&self, options = std::move(options)]() mutable -> Result<void> {
    KVIST_TRY(self.service_, loadgen::Service::create(self.thread_.loop(), std::move(options)));
    return {};
  }));
  KVIST_TRY_VOID(std::move(made));
  self.watch_ = std::move(watch);
  if (self.watch_) self.watch_->attach(self.thread_.loop(), *self.service_);
  return generator;
}

LoadGenerator::~LoadGenerator() {
  if (watch_) watch_->detach();
  thread_.end([this] { service_.reset(); });
}

Result<std::optional<TimePoint>> LoadGenerator::start(std::uint32_t concurrency, std::uint64_t seed) {
  KVIST_TRY(Result<void> started, thread_.ask([=, this] { return service_->start(concurrency, seed); }));
  KVIST_TRY_VOID(std::move(started));
  return std::optional<TimePoint>();
}

Result<void> LoadGenerator::raise(std::uint32_t concurrency) {
  KVIST_TRY(Result<void> raised, thread_.ask([=, this] { return service_->raise(concurrency); }));
  return raised;
}

std::future<void> LoadGenerator::stop(bool drain) {
  const auto promise = std::make_shared<std::promise<void>>();
  thread_.loop().post([this, promise, drain] { service_->stop(drain, [promise] { promise->set_value(); }); });
  return promise->get_future();
}

Result<std::uint32_t> LoadGenerator::in_flight() {
  return thread_.ask([this] { return service_->in_flight(); });
}

Result<workload::Snapshot> LoadGenerator::snapshot() {
  return thread_.ask([this] { return service_->snapshot(); });
}

Result<loadgen::ClientLoad> LoadGenerator::client_load() {
  return thread_.ask([this] { return service_->client_load(); });
}

Result<std::vector<workload::TurnSample>> LoadGenerator::take_samples() {
  return thread_.ask([this] { return service_->take_samples(); });
}

Result<void> LoadGenerator::complete(results::LevelRecord& record) {
  KVIST_TRY(const std::uint64_t refused, thread_.ask([this] { return service_->recorder().totals().samples_refused; }));
  const std::uint64_t now = refused - std::exchange(refused_before_, refused);
  if (now > 0) record.remarks.push_back(fmt::format("{} turns found no room in memory and are in no figure", now));
  return {};
}

Result<void> LoadGenerator::check_alive() {
  KVIST_TRY(const std::optional<std::string> given_up, thread_.ask([this] { return service_->given_up(); }));
  if (given_up) return fail(ErrorCode::kUnavailable, *given_up);
  return {};
}

}  // namespace kvist::sweep
