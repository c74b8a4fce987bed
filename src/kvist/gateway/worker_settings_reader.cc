#include "kvist/gateway/worker_settings_reader.h"

#include <limits>
#include <utility>

#include "kvist/base/check.h"

namespace kvist::gateway {

WorkerSettingsReader::WorkerSettingsReader(net::EventLoop& loop, KnownWorkerSettings known)
    : loop_(&loop), known_(std::move(known)) {}
WorkerSettingsReader::~WorkerSettingsReader() = default;

void WorkerSettingsReader::read(const WorkerSettingsSource& source, Done done) {
  if (!source.has_files()) return done(read_settings(source));
  submit([this, source, done = std::move(done)]() -> std::function<void()> {
    return [done, settings = known_.look_up(source)] { done(settings); };
  });
}

void WorkerSettingsReader::look(std::vector<WorkerSettingsSource> in_use, bool ask, Changed changed) {
  submit([this, ask, in_use = std::move(in_use), changed = std::move(changed)]() -> std::function<void()> {
    return [changed, changes = known_.look(in_use, ask)] { changed(changes); };
  });
}

void WorkerSettingsReader::submit(ReadingPool::Work work) {
  // Waiting work is bounded by those who ask: the workers of the file and of DNS answers, the calls of administrators,
  // and one look at a time.
  constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();
  if (!pool_) pool_ = std::make_unique<ReadingPool>(*loop_, ReadingPool::Options{.threads = 1, .max_waiting = kAny});
  const bool submitted = pool_->submit(
      [this, work = std::move(work)]() -> std::function<void()> {
        return [this, done = work()] {
          --reading_;
          done();
        };
      },
      0);
  ++reading_;
  KVIST_CHECK(submitted, "a pool without a bound takes everything");
}

}  // namespace kvist::gateway
