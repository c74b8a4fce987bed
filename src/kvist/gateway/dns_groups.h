// Workers that DNS names lead to.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kvist/gateway/fleet_changes.h"
#include "kvist/gateway/reloaded_file.h"
#include "kvist/net/dns_lookup.h"
#include "kvist/net/event_loop.h"

namespace kvist::gateway {

/// The workers behind these endpoints of a group.
[[nodiscard]] std::vector<spec::UpstreamSpec> workers_of(const spec::WorkerGroupSpec& group,
                                                         const std::vector<net::DnsEndpoint>& endpoints);

[[nodiscard]] net::DnsQuestion question_of(const spec::WorkerGroupSpec& group);

/// Asks for each group's name again and again: after `interval`, or when the answer's TTL is over if that is earlier,
/// but at most once a second. Addresses that come are added to the fleet, those that are gone are drained. An answer
/// without an address, or none at all, changes nothing: workers that are really gone are found by their health checks,
/// and a name server's mistake is not to take the whole fleet away. Threads: the loop's.
class DnsGroups {
 public:
  /// Takes the groups that name a DNS source. Requires: the loop and the changes outlive this object.
  DnsGroups(net::EventLoop& loop, const std::vector<spec::WorkerGroupSpec>& groups, FleetChanges& changes);

  void start();
  /// The groups of a changed file, as far as they name a DNS source. The workers of one that is gone are drained. A
  /// changed one is asked for at once; its workers stay what they are until the answer says which of them it has too.
  /// Requires: start() was called, and stop() was not.
  void carry_out(const GroupPlan& plan);
  /// Asks no more and ignores answers. The destructor waits for a name server as long as is_asking().
  void stop();
  [[nodiscard]] bool is_asking() const { return open_ > 0; }

 private:
  struct Group {
    Group(net::EventLoop& loop, spec::WorkerGroupSpec of) : spec(std::move(of)), timer(loop) {}
    spec::WorkerGroupSpec spec;
    std::vector<spec::UpstreamSpec> workers = {};  // by the last answer
    std::string problem = {};                      // as last logged
    net::Timer timer;
  };
  using Groups = std::vector<std::shared_ptr<Group>>;
  [[nodiscard]] Groups::iterator find(const std::string& name);
  void ask(const std::shared_ptr<Group>& group);
  void on_answer(const std::shared_ptr<Group>& asked, const Result<net::DnsAnswer>& answer);

  net::EventLoop* loop_;
  FleetChanges* changes_;
  Groups groups_;                             // questions have weak pointers: a group may be gone before its answer
  std::unique_ptr<net::DnsLookups> lookups_;  // null until there is a group
  std::size_t open_ = 0;                      // number of questions without an answer
  bool stopped_ = false;
};

}  // namespace kvist::gateway
