#include "kvist/gateway/fleet_changes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kvist/gateway/log_component.h"
#include "kvist/gateway/worker_settings.h"
#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

constexpr auto kPollPeriod = std::chrono::milliseconds(50);
constexpr auto kPause = std::chrono::seconds(1);
constexpr auto kLookAtFilesPeriod = std::chrono::seconds(1);

std::optional<dispatch::WorkerHold> hold_of(SharedHold hold) {
  if (hold == SharedHold::kFree) return std::nullopt;
  return hold == SharedHold::kCordoned ? dispatch::WorkerHold::kCordoned : dispatch::WorkerHold::kRemoved;
}

WorkerSettingsSource without_key(WorkerSettingsSource source) {
  source.key_file.clear();
  source.has_key = false;
  return source;
}

}  // namespace

std::string_view to_string(WorkerSource source) {
  switch (source) {
    case WorkerSource::kFile:
      return "file";
    case WorkerSource::kAdministration:
      return "administration";
    case WorkerSource::kDns:
      return "dns";
    case WorkerSource::kKubernetes:
      return "kubernetes";
  }
  return "file";
}

FleetChanges::FleetChanges(net::EventLoop& loop, ModelParts& parts, KnownWorkerSettings known)
    : parts_(&parts),
      reader_(loop, std::move(known)),
      sources_(parts.places.size(), WorkerSource::kFile),
      keyless_(parts.places.size()),
      timer_(loop),
      files_timer_(loop) {}

void FleetChanges::watch_files() {
  files_timer_.arm(net::now() + kLookAtFilesPeriod, [this] { look_at_files(); });
}

void FleetChanges::look_at_files() {
  std::vector<WorkerSettingsSource> in_use = sources_in_use();
  if (in_use.empty()) return watch_files();
  reader_.look(std::move(in_use), std::exchange(asks_for_files_, false),
               [this](const std::vector<KnownWorkerSettings::Change>& changes) {
                 on_files_changed(changes);
                 watch_files();
               });
}

std::vector<WorkerSettingsSource> FleetChanges::sources_in_use() const {
  const auto in_order = [](const WorkerSettingsSource& a, const WorkerSettingsSource& b) {
    const auto of = [](const WorkerSettingsSource& source) {
      return std::tie(source.key_file, source.has_key, source.uses_tls, source.tls.ca, source.tls.server_name,
                      source.tls.certificate, source.tls.key);
    };
    return of(a) < of(b);
  };
  std::set<WorkerSettingsSource, decltype(in_order)> sources(in_order);
  for (std::uint32_t i = 0; i < parts_->fleet.size(); ++i) {
    if (parts_->fleet.is_vacant(WorkerId(i))) continue;
    WorkerSettingsSource source = settings_source_of(WorkerId(i));
    if (source.has_files()) sources.insert(std::move(source));
  }
  return {sources.begin(), sources.end()};
}

void FleetChanges::on_files_changed(const std::vector<KnownWorkerSettings::Change>& changes) {
  for (const KnownWorkerSettings::Change& change : changes) {
    if (!change.settings) {
      telemetry::log_error(log_component::kFleet, fmt::format("the key and the certificate for workers stay as they "
                                                              "were: {}",
                                                              change.settings.error().message));
      continue;
    }
    std::set<std::string> urls;
    for (std::uint32_t i = 0; i < parts_->fleet.size(); ++i) {
      if (!parts_->fleet.is_vacant(WorkerId(i)) && settings_source_of(WorkerId(i)) == change.source)
        urls.insert(parts_->upstreams[i].url);
    }
    telemetry::log_info(log_component::kFleet, fmt::format("{} read again, for {} workers",
                                                           fmt::join(files_of(change.source), ", "), urls.size()));
    parts_->on_each_proxy([urls, settings = *change.settings](Proxy& each) {
      for (const std::string& url : urls) each.set_server(url, settings);
    });
  }
}

WorkerSettingsSource FleetChanges::settings_source_of(WorkerId worker) const {
  WorkerSettingsSource source = settings_source(parts_->spec, parts_->upstreams[worker.value()]);
  return is_keyless(worker) ? without_key(std::move(source)) : source;
}

// A page or a user of this machine that reaches an administration which asks nobody who they are could have the key
// sent to a server of its own. Whoever has the URL from the gateway's file is sent it anyway.
bool FleetChanges::withholds_key(const std::string& url) const {
  if (parts_->shared->asks_who_administers() || !has_fleet_key(parts_->spec)) return false;
  for (std::uint32_t i = 0; i < parts_->fleet.size(); ++i) {
    if (!parts_->fleet.is_vacant(WorkerId(i)) && !keyless_[i] && parts_->upstreams[i].url == url) return false;
  }
  return true;
}

void FleetChanges::add(const spec::UpstreamSpec& worker, Done done) {
  const bool keyless = withholds_key(worker.url);
  WorkerSettingsSource source = settings_source(parts_->spec, worker);
  if (keyless) source = without_key(std::move(source));
  reader_.read(source, [this, worker, keyless, done = std::move(done)](const Result<net::ServerSettings>& settings) {
    if (!settings) return done(std::unexpected(settings.error()));
    if (keyless && !withholds_key(worker.url)) return add(worker, done);  // the file has named it in the meantime
    const Result<void> added = bring_in(worker, *settings, WorkerSource::kAdministration, keyless);
    if (added) holds_.release(worker.name);
    done(added);
  });
}

Result<void> FleetChanges::bring_in(const spec::UpstreamSpec& worker, const net::ServerSettings& settings,
                                    WorkerSource source, bool keyless) {
  if (leaves_)
    return fail(ErrorCode::kInvalidArgument, fmt::format("model: \"{}\" is not served any more", parts_->spec.model));
  KVIST_TRY_VOID(check_url(worker));
  KVIST_TRY_VOID(check_other_models(worker));
  KVIST_TRY(const WorkerId place, parts_->places.add(worker.name, net::now()));
  sources_[place.value()] = source;
  parts_->bring_in(place, worker, settings);
  keyless_[place.value()] = keyless;
  for (std::size_t i = 0; i < keyless_.size(); ++i)  // settings belong to URLs
    if (!keyless && parts_->upstreams[i].url == worker.url) keyless_[i] = false;
  telemetry::log_info(log_component::kFleet,
                      fmt::format("{} at {} was added ({}), place {} of {}", worker.name, worker.url, to_string(source),
                                  place.value(), parts_->places.size()));
  if (keyless) {
    telemetry::log_warning(log_component::kFleet,
                           fmt::format("{} is not sent the fleet's key: {}", worker.name, kWithheldBecause));
  }
  if (source == WorkerSource::kAdministration || holds_.find(worker.name) != dispatch::WorkerHold::kCordoned) return {};
  return cordon(worker.name);
}

// The key that a worker is sent and its TLS settings belong to its URL, because calls to one address share their
// connections.
Result<void> FleetChanges::check_url(const spec::UpstreamSpec& worker) const {
  for (std::uint32_t i = 0; i < parts_->fleet.size(); ++i) {
    const spec::UpstreamSpec& other = parts_->upstreams[i];
    if (parts_->fleet.is_vacant(WorkerId(i)) || other.url != worker.url) continue;
    if (other.api_key_file == worker.api_key_file && other.tls == worker.tls) continue;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} has the url {} as well, but another api_key_file or tls", other.name, worker.url));
  }
  return {};
}

// Health, events and load of a worker are one model's, and a name stands for one worker in requests and logs.
Result<void> FleetChanges::check_other_models(const spec::UpstreamSpec& worker) const {
  for (const ModelParts* const other : parts_->shared->models) {
    if (other == parts_) continue;
    if (other->places.find(worker.name))
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("name: \"{}\" is a worker of the model \"{}\"", worker.name, other->spec.model));
    const auto same = std::ranges::find(other->upstreams, worker.url, &spec::UpstreamSpec::url);
    if (same == other->upstreams.end()) continue;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("url: {} is that of {}, a worker of the model \"{}\": a worker serves one model",
                            worker.url, same->name, other->spec.model));
  }
  return {};
}

void FleetChanges::add_when_possible(const spec::UpstreamSpec& worker, WorkerSource source) {
  give_up(worker.name);
  waiting_.push_back({.worker = worker, .source = source});
  poll();
}

bool FleetChanges::give_up(std::string_view name) {
  return std::erase_if(waiting_, [&](const Waiting& waiting) { return waiting.worker.name == name; }) > 0;
}

Result<void> FleetChanges::cordon(std::string_view name) {
  KVIST_TRY(const WorkerId worker, parts_->places.cordon(name, net::now()));
  holds_.set(name, dispatch::WorkerHold::kCordoned);
  parts_->fleet.set_open(worker, false);
  telemetry::log_info(log_component::kFleet, fmt::format("{} is cordoned: it gets no new requests", name));
  return {};
}

Result<void> FleetChanges::uncordon(std::string_view name) {
  const bool was_held = holds_.release(name);
  Result<void> back = take_back(name);
  if (!back && was_held) {
    telemetry::log_info(log_component::kFleet, fmt::format("{} may come back", name));
    poll();
    return {};
  }
  return back;
}

Result<void> FleetChanges::take_back(std::string_view name) {
  KVIST_TRY(const WorkerId worker, parts_->places.uncordon(name, net::now()));
  if (holds_.find(name) == dispatch::WorkerHold::kCordoned) return cordon(name);
  parts_->fleet.set_open(worker, true);
  telemetry::log_info(log_component::kFleet, fmt::format("{} is uncordoned", name));
  return {};
}

// The hold is set before anything else happens, because an idle worker is gone at once, and one that waits for its name
// would take its place.
Result<void> FleetChanges::drain(std::string_view name, std::optional<Duration> timeout) {
  KVIST_TRY_VOID(begin_drain(name, timeout));
  holds_.set(name, dispatch::WorkerHold::kRemoved);
  poll();
  return {};
}

Result<void> FleetChanges::begin_drain(std::string_view name, std::optional<Duration> timeout) {
  const TimePoint now = net::now();
  const Duration time = timeout.value_or(parts_->shared->spec.drain_timeout);
  if (const auto present = parts_->places.find(name); present && !timeout) {
    if (parts_->places.place(*present).state == dispatch::PlaceState::kDraining) return {};  // its end stays as it is
  }
  KVIST_TRY(const WorkerId worker, parts_->places.drain(name, now + time, now));
  parts_->fleet.set_open(worker, false);
  telemetry::log_info(log_component::kFleet,
                      fmt::format("{} drains: its {} requests have {} s", name,
                                  parts_->router.loads().load(worker).requests, to_seconds(time)));
  return {};
}

Result<void> FleetChanges::remove(std::string_view name) {
  const auto before = parts_->places.find(name);
  const bool leaves = before && parts_->places.place(*before).state == dispatch::PlaceState::kLeaving;
  KVIST_TRY(const WorkerId worker, parts_->places.remove(name, net::now()));
  holds_.set(name, dispatch::WorkerHold::kRemoved);
  if (leaves) return {};
  telemetry::log_info(log_component::kFleet, fmt::format("{} is removed: its {} requests leave it", name,
                                                         parts_->router.loads().load(worker).requests));
  parts_->turn_out(worker);
  poll();
  return {};
}

bool FleetChanges::follow(const WorkerDecision& decided) {
  const std::optional<dispatch::WorkerHold> held = holds_.find(decided.worker);
  const std::optional<dispatch::WorkerHold> wanted = hold_of(decided.hold);
  // That a worker is to be out says neither that its requests leave it at once nor how long they have.
  const bool says_more = decided.hold == SharedHold::kRemoved || decided.timeout;
  if (held == wanted && !says_more) return false;
  const Result<void> done = do_as(decided);
  if (!done && wanted && held != wanted) holds_.set(decided.worker, *wanted);
  return done || held != wanted;
}

Result<void> FleetChanges::do_as(const WorkerDecision& decided) {
  switch (decided.hold) {
    case SharedHold::kFree:
      return uncordon(decided.worker);
    case SharedHold::kCordoned:
      return cordon(decided.worker);
    case SharedHold::kDrained:
      return drain(decided.worker, decided.timeout);
    case SharedHold::kRemoved:
      return remove(decided.worker);
  }
  return {};
}

Result<void> FleetChanges::set_limits(std::string_view name, const spec::UpstreamLimits& limits) {
  const std::optional<WorkerId> worker = parts_->places.find(name);
  if (!worker) return fail(ErrorCode::kNotFound, fmt::format("name: there is no worker \"{}\"", name));
  parts_->upstreams[worker->value()].limits = limits;
  parts_->configure_limits(*worker);
  return {};
}

void FleetChanges::drain_all(Duration timeout) {
  leaves_ = true;
  waiting_.clear();
  for (std::uint32_t i = 0; i < parts_->places.size(); ++i) {
    const dispatch::PlaceState state = parts_->places.place(WorkerId(i)).state;
    if (state == dispatch::PlaceState::kVacant || state == dispatch::PlaceState::kLeaving) continue;
    if (const auto drained = begin_drain(parts_->upstreams[i].name, timeout); !drained)
      telemetry::log_warning(log_component::kFleet, drained.error().message);
  }
  poll();
}

void FleetChanges::carry_out(const FleetPlan& plan, WorkerSource source) {
  const auto leave = [&](const std::string& name) {
    const bool waited = give_up(name);
    if (const auto drained = begin_drain(name, std::nullopt); !drained && !waited)
      telemetry::log_info(log_component::kFleet, fmt::format("{} is not drained: {}", name, drained.error().message));
  };
  for (const std::string& name : plan.drain) leave(name);
  for (const spec::UpstreamSpec& worker : plan.replace) {
    leave(worker.name);
    add_when_possible(worker, source);
  }
  for (const spec::UpstreamSpec& worker : plan.limits) {
    if (const auto set = set_limits(worker.name, worker.limits); !set)
      telemetry::log_info(log_component::kFleet, fmt::format("limits of {}: {}", worker.name, set.error().message));
  }
  for (const spec::UpstreamSpec& worker : plan.add) {
    // A worker that comes back while it drains is still the same one, unless an administrator drains it.
    const std::optional<WorkerId> present = parts_->places.find(worker.name);
    const bool drains = present && parts_->places.place(*present).state == dispatch::PlaceState::kDraining &&
                        parts_->upstreams[present->value()] == worker &&
                        holds_.find(worker.name) != dispatch::WorkerHold::kRemoved;
    if (!drains || !take_back(worker.name)) add_when_possible(worker, source);
  }
  poll();
}

void FleetChanges::poll() {
  const TimePoint now = net::now();
  const dispatch::WorkerPlaces::Changes changes =
      parts_->places.poll([this](WorkerId worker) { return parts_->dispatcher.uses(worker); }, now);
  for (const WorkerId worker : changes.leave) {
    telemetry::log_info(log_component::kFleet,
                        fmt::format("{} is drained: {} requests leave it", parts_->fleet.worker(worker).name,
                                    parts_->router.loads().load(worker).requests));
    parts_->turn_out(worker);
  }
  for (const WorkerId worker : changes.clear) parts_->clear(worker);
  std::erase_if(waiting_, [this, now](Waiting& waiting) { return try_to_add(waiting, now); });
  poll_later();
}

bool FleetChanges::try_to_add(Waiting& waiting, TimePoint now) {
  if (waiting.is_reading) return false;
  if (holds_.find(waiting.worker.name) == dispatch::WorkerHold::kRemoved) {
    note(waiting, "an administrator took it out; uncordon it to have it back");
    return false;
  }
  const bool has_room = parts_->places.vacant() > 0 && !parts_->places.find(waiting.worker.name);
  if (!waiting.problem.empty() && (!has_room || now < waiting.next)) return false;
  if (!waiting.settings) {
    const WorkerSettingsSource source = settings_source(parts_->spec, waiting.worker);
    if (source.has_files()) {
      read_files(waiting, source);
      return false;
    }
    Result<net::ServerSettings> settings = read_settings(source);
    if (!settings) {
      note(waiting, settings.error().message);
      return false;
    }
    waiting.settings = *std::move(settings);
  }
  const auto added = bring_in(waiting.worker, *waiting.settings, waiting.source);
  if (added) return true;
  waiting.settings.reset();  // until there is room, its files may change
  note(waiting, added.error().message);
  return false;
}

void FleetChanges::read_files(Waiting& waiting, const WorkerSettingsSource& source) {
  waiting.is_reading = true;
  reader_.read(source, [this, worker = waiting.worker](const Result<net::ServerSettings>& settings) {
    const auto found = std::ranges::find_if(
        waiting_, [&](const Waiting& entry) { return entry.is_reading && entry.worker == worker; });
    if (found == waiting_.end()) return;
    found->is_reading = false;
    if (settings) {
      found->settings = *settings;
      found->next = {};
    } else {
      note(*found, settings.error().message);
    }
    poll();
  });
}

void FleetChanges::note(Waiting& waiting, const std::string& problem) {
  waiting.next = net::now() + kPause;  // what is in the way may be files that have to be read
  if (std::exchange(waiting.problem, problem) != problem)
    telemetry::log_warning(log_component::kFleet,
                           fmt::format("{} waits to be added: {}", waiting.worker.name, problem));
}

void FleetChanges::poll_later() {
  bool busy = !waiting_.empty();
  for (std::uint32_t i = 0; i < parts_->places.size(); ++i) {
    const dispatch::PlaceState state = parts_->places.place(WorkerId(i)).state;
    busy = busy || state == dispatch::PlaceState::kDraining || state == dispatch::PlaceState::kLeaving;
  }
  if (!busy || std::exchange(armed_, true)) return;
  timer_.arm(net::now() + kPollPeriod, [this] {
    armed_ = false;
    poll();
  });
}

}  // namespace kvist::gateway
