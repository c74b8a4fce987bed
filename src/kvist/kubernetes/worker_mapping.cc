#include "kvist/kubernetes/worker_mapping.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

namespace kvist::kubernetes {
namespace {

/// As the names of workers in kvist's files.
constexpr std::size_t kMostNameBytes = 64;

std::uint16_t port_called(const EndpointSlice& slice, std::string_view name) {
  const auto found = std::ranges::find(slice.ports, name, &EndpointPort::name);
  return found == slice.ports.end() ? std::uint16_t{0} : found->port;
}

std::uint16_t http_port(const EndpointSlice& slice, const WorkerSelection& selection) {
  if (selection.port != 0) return selection.port;
  if (!selection.port_name.empty()) return port_called(slice, selection.port_name);
  return slice.ports.size() == 1 ? slice.ports.front().port : port_called(slice, "http");
}

/// A number that a pod's label has; nothing if it has none, or one that is no port.
std::optional<std::uint16_t> port_of(const PodMetadata* pod, std::string_view label) {
  const auto text = pod == nullptr ? std::nullopt : pod->find(label);
  if (!text) return std::nullopt;
  std::uint16_t port = 0;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), port);
  if (problem != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return port;
}

/// The port of an engine's data-parallel rank; 0: there is none.
std::uint16_t port_of_rank(std::uint16_t first, std::size_t rank) {
  const std::size_t port = first + rank;
  return first == 0 || port > 65'535 ? std::uint16_t{0} : static_cast<std::uint16_t>(port);
}

std::uint16_t event_port(const EndpointSlice& slice, const PodMetadata* pod, std::string_view label,
                         std::string_view port_name, std::uint16_t otherwise) {
  if (const auto port = port_of(pod, label)) return *port;
  const std::uint16_t named = port_called(slice, port_name);
  return named != 0 ? named : otherwise;
}

/// `wanted`, if it is a name that a worker may have.
std::string name_of(const std::string& wanted, const std::string& address, std::uint16_t port,
                    const std::string& group) {
  if (!wanted.empty() && wanted.size() <= kMostNameBytes) return wanted;
  std::string name = fmt::format("{}-{}-{}", group, address, port);
  std::ranges::replace(name, ':', '_');  // a name has no colons
  return name;
}

const PodMetadata* pod_of(const Endpoint& endpoint, const std::string& slice_key, const PodsByKey& pods) {
  const std::string name_space = slice_key.substr(0, slice_key.find('/'));
  const auto found = pods.find(name_space + "/" + endpoint.pod);
  return found == pods.end() ? nullptr : &found->second;
}

std::string text_of(const PodMetadata* pod, std::string_view label) {
  const auto text = pod == nullptr ? std::nullopt : pod->find(label);
  return std::string(text.value_or(""));
}

/// Whether a worker whose pod names this model and role is one of the selection.
bool is_selected(const Worker& worker, const WorkerSelection& selection) {
  if (!worker.model.empty() && worker.model != selection.model) return false;
  return selection.role.empty() || worker.role.empty() || worker.role == selection.role;
}

struct Candidate {
  Worker worker;
  bool is_v6 = false;
};

/// The worker that the endpoint is, ready or not; nothing if it is to be no worker.
std::optional<Candidate> candidate(const std::string& slice_key, const EndpointSlice& slice, const Endpoint& endpoint,
                                   const PodsByKey& pods, const WorkerSelection& selection) {
  const std::uint16_t port = http_port(slice, selection);
  if (port == 0) return std::nullopt;
  const PodMetadata* const pod = selection.watches_pods ? pod_of(endpoint, slice_key, pods) : nullptr;
  if (selection.watches_pods && pod == nullptr) return std::nullopt;
  Candidate made{.worker = {.name = name_of(endpoint.pod, endpoint.address, port, selection.group),
                            .host = endpoint.address,
                            .port = port,
                            .model = text_of(pod, kModelLabel),
                            .role = text_of(pod, kRoleLabel)},
                 .is_v6 = slice.address_type == "IPv6"};
  if (!is_selected(made.worker, selection)) return std::nullopt;
  made.worker.kv_events_port = event_port(slice, pod, kKvEventsPortLabel, "kv-events", selection.kv_events_port);
  if (made.worker.kv_events_port != 0)
    made.worker.kv_replay_port = event_port(slice, pod, kKvReplayPortLabel, "kv-replay", selection.kv_replay_port);
  return made;
}

/// Whether `one` is to be taken rather than `other` for the same pod.
bool is_better(const Candidate& one, const Candidate& other) {
  if (one.is_v6 != other.is_v6) return !one.is_v6;
  return std::tie(one.worker.host, one.worker.port, one.worker.kv_events_port, one.worker.kv_replay_port) <
         std::tie(other.worker.host, other.worker.port, other.worker.kv_events_port, other.worker.kv_replay_port);
}

}  // namespace

std::vector<Worker> workers_of(const SlicesByKey& slices, const PodsByKey& pods, const WorkerSelection& selection) {
  std::map<std::string, Candidate> by_name;
  for (const auto& [key, slice] : slices) {
    for (const Endpoint& endpoint : slice.endpoints) {
      if (!endpoint.ready || endpoint.terminating) continue;
      std::optional<Candidate> made = candidate(key, slice, endpoint, pods, selection);
      if (!made) continue;
      const std::string name = made->worker.name;
      const auto [place, is_new] = by_name.try_emplace(name, *made);
      if (!is_new && is_better(*made, place->second)) place->second = *std::move(made);
    }
  }
  std::vector<Worker> workers;
  workers.reserve(by_name.size());
  for (auto& [name, made] : by_name) workers.push_back(std::move(made.worker));
  return workers;
}

std::vector<Worker> workers_of(const InferencePool& pool, const PoolPodsByKey& pods, const WorkerSelection& selection) {
  const std::vector<std::uint16_t> ports =
      selection.port != 0 ? std::vector<std::uint16_t>{selection.port} : pool.ports;
  std::map<std::string, Worker> by_name;
  for (const auto& [key, pod] : pods) {
    if (!pod.ready || pod.terminating || pod.address.empty()) continue;
    const std::string pod_name = key.substr(key.find('/') + 1);
    for (std::size_t rank = 0; rank < ports.size(); ++rank) {
      const std::string wanted = ports.size() == 1 ? pod_name : fmt::format("{}-{}", pod_name, ports[rank]);
      Worker worker{.name = name_of(wanted, pod.address, ports[rank], selection.group),
                    .host = pod.address,
                    .port = ports[rank],
                    .model = text_of(&pod.metadata, kModelLabel),
                    .role = text_of(&pod.metadata, kRoleLabel)};
      if (!is_selected(worker, selection)) continue;
      worker.kv_events_port =
          port_of_rank(port_of(&pod.metadata, kKvEventsPortLabel).value_or(selection.kv_events_port), rank);
      if (worker.kv_events_port != 0)
        worker.kv_replay_port =
            port_of_rank(port_of(&pod.metadata, kKvReplayPortLabel).value_or(selection.kv_replay_port), rank);
      by_name.try_emplace(worker.name, worker);
    }
  }
  std::vector<Worker> workers;
  workers.reserve(by_name.size());
  for (auto& [name, worker] : by_name) workers.push_back(std::move(worker));
  return workers;
}

}  // namespace kvist::kubernetes
