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
#include "kvist/gateway/worker_decision.h"
#include "kvist/gateway/worker_settings_reader.h"
#include "kvist/net/event_loop.h"

namespace kvist::gateway {

/// Who wants a worker in the fleet.
enum class WorkerSource : std::uint8_t { kFile, kAdministration, kDns, kKubernetes };
/// "file", "administration", "dns", "kubernetes"
[[nodiscard]] std::string_view to_string(WorkerSource source);

/// Why FleetChanges::is_keyless().
inline constexpr std::string_view kWithheldBecause =
    "it was added through administration, which asks neither for keys (api_keys.admin_file) nor for client "
    "certificates "
    "(admin_tls)";

/// Carries out what dispatch::WorkerPlaces decides. A worker that is drained gets no new requests and is removed when
/// its requests are over, or at a deadline. One that is removed loses its requests at once; they go on at other workers
/// if they can. What an administrator has cordoned, drained or removed stays so when its source drops the worker and
/// lists it again (dispatch::WorkerHolds). Threads: the loop's.
class FleetChanges {
 public:
  /// `known`: what the files of the workers that are there say. Requires: both outlive this object.
  FleetChanges(net::EventLoop& loop, ModelParts& parts, KnownWorkerSettings known = {});

  /// Looks every second from here on whether files of keys and certificates of workers have changed. Then new
  /// connections to these workers have what they say now; a file that is not good changes nothing.
  void watch_files();
  /// All these files are read again at the next look, except those that change just then: they are read later.
  void ask_for_files() { asks_for_files_ = true; }

  using Done = std::function<void(const Result<void>&)>;
  /// An administrator adds the worker. Calls `done` now, or when the worker's files were read. Errors: those of
  /// WorkerPlaces::add() and read_settings(); kInvalidArgument if a worker of the same URL has another key or other TLS
  /// settings, or if the name or the URL is that of another model's worker.
  void add(const spec::UpstreamSpec& worker, Done done);
  /// Adds the worker as soon as its name and a place are free, its files were read and no administrator wants it away,
  /// and says in the log what it waits for. One of the same name that waits already is replaced.
  void add_when_possible(const spec::UpstreamSpec& worker, WorkerSource source);
  // The next ones are an administrator's. Errors: those of WorkerPlaces.
  [[nodiscard]] Result<void> cordon(std::string_view name);
  /// Takes back what an administrator has decided, even if the worker is no longer in the fleet.
  [[nodiscard]] Result<void> uncordon(std::string_view name);
  /// Without a timeout, one that drains already keeps the end that was set for it, and others have `drain_timeout`.
  [[nodiscard]] Result<void> drain(std::string_view name, std::optional<Duration> timeout);
  [[nodiscard]] Result<void> remove(std::string_view name);
  /// What was decided at another gateway. It holds for a worker that comes later too. Returns whether that is news.
  bool follow(const WorkerDecision& decided);
  /// Takes a worker back that waits to be added. Returns whether there was one.
  bool give_up(std::string_view name);
  /// Drains all workers. Workers that wait for a place are not added any more.
  void drain_all(Duration timeout);
  /// Carries out what a changed list of workers asks for. Ignores workers in it that are no longer in the fleet.
  void carry_out(const FleetPlan& plan, WorkerSource source);
  /// Changes the worker's limits. Errors: kNotFound.
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
  /// Whether the fleet's key is not sent to the worker, as anyone who reaches administration may have added it to get
  /// the key.
  [[nodiscard]] bool is_keyless(WorkerId worker) const { return keyless_.at(worker.value()); }
  [[nodiscard]] const dispatch::WorkerHolds& holds() const { return holds_; }
  /// Takes over what an administrator had decided of the workers of the model's predecessor. Requires: nothing was
  /// decided here yet.
  void take_over(dispatch::WorkerHolds holds) { holds_ = std::move(holds); }
  /// Whether files of workers that are to be added are being read.
  [[nodiscard]] bool is_reading() const { return reader_.is_reading(); }

 private:
  [[nodiscard]] Result<void> do_as(const WorkerDecision& decided);
  [[nodiscard]] Result<void> check_url(const spec::UpstreamSpec& worker) const;
  [[nodiscard]] Result<void> check_other_models(const spec::UpstreamSpec& worker) const;
  /// Gives the worker a place.
  [[nodiscard]] Result<void> bring_in(const spec::UpstreamSpec& worker, const net::ServerSettings& settings,
                                      WorkerSource source, bool keyless = false);
  /// Whether a worker that an administrator adds at this URL is sent no key.
  [[nodiscard]] bool withholds_key(const std::string& url) const;
  /// What the settings of the worker in this place are made of.
  [[nodiscard]] WorkerSettingsSource settings_source_of(WorkerId worker) const;
  /// Begins to drain the worker; the next poll() carries out what follows.
  [[nodiscard]] Result<void> begin_drain(std::string_view name, std::optional<Duration> timeout);
  /// A draining worker goes on, unless an administrator has decided otherwise.
  [[nodiscard]] Result<void> take_back(std::string_view name);
  /// Reads the worker's files, then tries again to add it.
  void read_files(Waiting& waiting, const WorkerSettingsSource& source);
  void look_at_files();
  void on_files_changed(const std::vector<KnownWorkerSettings::Change>& changes);
  /// The sources of all workers in place, each once.
  [[nodiscard]] std::vector<WorkerSettingsSource> sources_in_use() const;
  /// Remembers why the worker cannot be added, and logs the reason if it is new.
  static void note(Waiting& waiting, const std::string& problem);
  void poll();
  /// Returns whether the worker was added.
  [[nodiscard]] bool try_to_add(Waiting& waiting, TimePoint now);
  void poll_later();

  ModelParts* parts_;
  WorkerSettingsReader reader_;
  dispatch::WorkerHolds holds_;
  std::vector<WorkerSource> sources_;  // by WorkerId
  std::vector<bool> keyless_;          // by WorkerId
  std::vector<Waiting> waiting_;
  net::Timer timer_;
  bool armed_ = false;
  net::Timer files_timer_;
  bool asks_for_files_ = false;
  bool leaves_ = false;  // drain_all() was called
};

}  // namespace kvist::gateway
