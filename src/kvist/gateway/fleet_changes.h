// The fleet while it changes: workers come, are cordoned, drained and removed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/dispatch/worker_holds.h"
#include "kvist/gateway/model_parts.h"
#include "kvist/gateway/reloaded_file.h"
#include "kvist/gateway/worker_settings_reader.h"
#include "kvist/net/event_loop.h"

namespace kvist::gateway {

/// Who wants a worker in the fleet.
enum class WorkerSource : std::uint8_t { kFile, kAdministration, kDns, kKubernetes };
/// "file", "administration", "dns", "kubernetes"
[[nodiscard]] std::string_view to_string(WorkerSource source);

/// Carries out what dispatch::WorkerPlaces decides. A worker that is drained gets no new requests, and is removed when
/// those it has are over, or at a deadline; one that is removed loses its requests to other workers at once, where they
/// can go on. What an administrator has cordoned, drained or removed stays so when its source drops the worker and
/// lists it again (dispatch::WorkerHolds). Threads: the loop's.
class FleetChanges {
 public:
  /// Requires: both outlive this object.
  FleetChanges(net::EventLoop& loop, ModelParts& parts);

  using Done = std::function<void(const Result<void>&)>;
  /// An administrator adds the worker. Calls `done` now, or when its files were read. Errors: those of
  /// WorkerPlaces::add() and read_settings(); kInvalidArgument if a worker of the same URL has another key or other TLS
  /// settings, or if the name or the URL is that of another model's worker.
  void add(const spec::UpstreamSpec& worker, Done done);
  /// Adds the worker as soon as its name and a place are free, its files were read and no administrator wants it away,
  /// and says in the log what it waits for. One of the same name that waits already is replaced.
  void add_when_possible(const spec::UpstreamSpec& worker, WorkerSource source);
  // The next ones are an administrator's. Errors: those of WorkerPlaces.
  [[nodiscard]] Result<void> cordon(std::string_view name);
  /// Takes back what an administrator has decided, of a worker that is no longer in the fleet too.
  [[nodiscard]] Result<void> uncordon(std::string_view name);
  [[nodiscard]] Result<void> drain(std::string_view name, Duration timeout);
  [[nodiscard]] Result<void> remove(std::string_view name);
  /// Takes a worker back that waits to be added. Returns whether there was one.
  bool give_up(std::string_view name);
  /// All workers are to leave; none that waits is added any more.
  void drain_all(Duration timeout);
  /// Carries out what a changed list of workers asks for. Those that are not there any more are not missed.
  void carry_out(const FleetPlan& plan, WorkerSource source);
  /// The worker's limits are others from here on. Errors: kNotFound.
  [[nodiscard]] Result<void> set_limits(std::string_view name, const spec::UpstreamLimits& limits);

  struct Waiting {
    spec::UpstreamSpec worker;
    WorkerSource source = WorkerSource::kFile;
    std::string problem = {};                          ///< why it could not be added, as last logged
    TimePoint next = {};                               ///< when that is tried again
    bool is_reading = false;                           ///< its files
    std::optional<net::ServerSettings> settings = {};  ///< what they say
  };
  [[nodiscard]] const std::vector<Waiting>& waiting() const { return waiting_; }
  [[nodiscard]] WorkerSource source(WorkerId worker) const { return sources_.at(worker.value()); }
  [[nodiscard]] const dispatch::WorkerHolds& holds() const { return holds_; }
  /// What was decided of the workers of the model's predecessor, for which nothing was decided here yet.
  void take_over(dispatch::WorkerHolds holds) { holds_ = std::move(holds); }
  /// Whether files of workers are being read, for whoever asked to add them.
  [[nodiscard]] bool is_reading() const { return reader_.is_reading(); }

 private:
  [[nodiscard]] Result<void> check_url(const spec::UpstreamSpec& worker) const;
  [[nodiscard]] Result<void> check_other_models(const spec::UpstreamSpec& worker) const;
  /// Gives the worker a place.
  [[nodiscard]] Result<void> bring_in(const spec::UpstreamSpec& worker, const net::ServerSettings& settings,
                                      WorkerSource source);
  /// What follows from it comes with the next poll().
  [[nodiscard]] Result<void> begin_drain(std::string_view name, Duration timeout);
  /// A draining worker goes on, unless an administrator has decided otherwise.
  [[nodiscard]] Result<void> take_back(std::string_view name);
  /// Then tries again.
  void read_files(Waiting& waiting, const WorkerSettingsSource& source);
  /// Remembers why it cannot be added, and logs it if that is new.
  static void note(Waiting& waiting, const std::string& problem);
  void poll();
  /// Returns whether the worker was added.
  [[nodiscard]] bool try_to_add(Waiting& waiting, TimePoint now);
  void poll_later();

  ModelParts* parts_;
  WorkerSettingsReader reader_;
  dispatch::WorkerHolds holds_;
  std::vector<WorkerSource> sources_;  // by WorkerId
  std::vector<Waiting> waiting_;
  net::Timer timer_;
  bool armed_ = false;
  bool leaves_ = false;  // drain_all() was called
};

}  // namespace kvist::gateway
