#include "kvist/gateway/worker_settings_reader.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/net/watched_files.h"

namespace kvist::gateway {

WorkerSettingsReader::WorkerSettingsReader(net::EventLoop& loop) : loop_(&loop) {}
WorkerSettingsReader::~WorkerSettingsReader() = default;

void WorkerSettingsReader::read(const WorkerSettingsSource& source, Done done) {
  if (!source.has_files()) return done(read_settings(source));
  // Waiting work is bounded by those who ask: the workers of the file and of DNS answers, and the calls of
  // administrators.
  constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();
  if (!pool_) pool_ = std::make_unique<ReadingPool>(*loop_, ReadingPool::Options{.threads = 1, .max_waiting = kAny});
  const bool submitted = pool_->submit(
      [this, source, done]() -> std::function<void()> {
        return [this, done, settings = look_up(source)] {
          --reading_;
          done(settings);
        };
      },
      0);
  ++reading_;
  KVIST_CHECK(submitted, "a pool without a bound takes everything");
}

// The stamps are taken before the files are read, so that a change while they are read is noticed the next time.
Result<net::ServerSettings> WorkerSettingsReader::look_up(const WorkerSettingsSource& source) {
  net::FileStamps stamps = net::WatchedFiles::stamps_of(files_of(source));
  const auto found = std::ranges::find(known_, source, &Known::source);
  if (found != known_.end() && found->stamps == stamps) return found->settings;
  KVIST_TRY(net::ServerSettings settings, read_settings(source));
  if (found != known_.end()) known_.erase(found);
  if (known_.size() >= kMostKnown) known_.erase(known_.begin());
  known_.push_back({.source = source, .stamps = std::move(stamps), .settings = settings});
  return settings;
}

}  // namespace kvist::gateway
