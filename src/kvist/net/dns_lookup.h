// Asks the domain name system where a service is, without blocking the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/net/event_loop.h"

namespace kvist::net {

struct DnsQuestion {
  std::string name;
  bool services = false;    ///< SRV records, which name ports; otherwise addresses: A and AAAA records
  std::uint16_t port = 0;   ///< of addresses without services
  std::string server = {};  ///< "IPv4:port" or "[IPv6]:port" of the server to ask; empty: those of /etc/resolv.conf
};

/// A place where the service can be reached: "10.0.0.7:8000", "[2001:db8::7]:8000".
struct DnsEndpoint {
  std::string address;  ///< without brackets
  std::uint16_t port = 0;

  auto operator<=>(const DnsEndpoint&) const = default;
};

struct DnsAnswer {
  std::vector<DnsEndpoint> endpoints;  ///< in ascending order, each once
  Duration ttl{};                      ///< how long it holds: the least of its records
};

/// The most endpoints of one answer.
inline constexpr std::size_t kMostDnsEndpoints = 1'024;

/// Asks and waits, for some seconds at most. With SRV records, only those of the lowest priority number count; weights
/// do not. Errors: kNotFound if there is no such name, or none of these records; kUnavailable if no server answers or
/// can say; kCorrupt; kTooLarge. Threads: any.
[[nodiscard]] Result<DnsAnswer> look_up(const DnsQuestion& question);

/// Reads the addresses or services in a message from a server. `priority`, `target`, `port` of services. For look_up()
/// and the tests of its parser.
struct DnsRecords {
  struct Service {
    std::uint16_t priority = 0;
    std::uint16_t port = 0;
    std::string target;
  };
  std::vector<std::string> addresses;
  std::vector<Service> services;
  std::uint32_t least_ttl_s = ~0U;
};
[[nodiscard]] Result<DnsRecords> read_dns_records(const std::uint8_t* message, std::size_t size);

/// Asks on a thread of its own, one question after another. The destructor waits for the one under way. Threads: the
/// loop's.
class DnsLookups {
 public:
  explicit DnsLookups(EventLoop& loop);
  ~DnsLookups();
  DnsLookups(const DnsLookups&) = delete;
  DnsLookups& operator=(const DnsLookups&) = delete;

  /// Calls `then` on the loop, later, unless this object is gone by then.
  void ask(DnsQuestion question, std::function<void(Result<DnsAnswer>)> then);

 private:
  class Thread;
  std::shared_ptr<Thread> thread_;
};

}  // namespace kvist::net
