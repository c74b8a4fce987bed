#include "kvist/net/dns_lookup.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace kvist::net {
namespace {

/// A message over TCP has at most so many bytes.
constexpr std::size_t kMostBytes = 65'535;
constexpr int kTimeoutSeconds = 1;  // of one attempt at one server; each further one takes twice as long
constexpr int kAttempts = 2;
constexpr std::size_t kMostServices = 64;

/// The system's resolver, with the server to ask.
class Resolver {
 public:
  static Result<std::unique_ptr<Resolver>> open(const std::string& server) {
    auto resolver = std::unique_ptr<Resolver>(new Resolver());
    if (::res_ninit(&resolver->state_) != 0)
      return fail(ErrorCode::kInternal, "the system's settings for name resolution cannot be read");
    resolver->open_ = true;
    resolver->state_.retrans = kTimeoutSeconds;
    resolver->state_.retry = kAttempts;
    if (!server.empty()) KVIST_TRY_VOID(resolver->ask_only(server));
    return resolver;
  }
  ~Resolver() {
    if (open_) ::res_nclose(&state_);
  }
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  /// kNotFound if there are no such records.
  Result<DnsRecords> ask(const std::string& name, int type) {
    const int size =
        ::res_nsearch(&state_, name.c_str(), ns_c_in, type, message_.data(), static_cast<int>(message_.size()));
    if (size < 0) {
      const bool none = state_.res_h_errno == HOST_NOT_FOUND || state_.res_h_errno == NO_DATA;
      return fail(none ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
                  fmt::format("{}: {}", name, ::hstrerror(state_.res_h_errno)));
    }
    return read_dns_records(message_.data(), std::min(static_cast<std::size_t>(size), message_.size()));
  }

 private:
  Resolver() : message_(kMostBytes) {}

  Result<void> ask_only(const std::string& server) {
    const std::size_t colon = server.rfind(':');
    std::uint16_t port = 0;
    const char* const end = server.data() + server.size();
    const bool has_port = colon != std::string::npos &&
                          std::from_chars(server.data() + colon + 1, end, port) == std::from_chars_result{end, {}};
    const std::string host = server.substr(0, colon);
    const bool in_brackets = host.starts_with('[') && host.ends_with(']');
    sockaddr_in v4{};
    sockaddr_in6 v6{};
    if (has_port && ::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
      v4.sin_family = AF_INET;
      v4.sin_port = htons(port);
      ask_only(v4);
      return {};
    }
    if (has_port && in_brackets && ::inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &v6.sin6_addr) == 1) {
      v6.sin6_family = AF_INET6;
      v6.sin6_port = htons(port);
      return ask_only(v6);
    }
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("expected the address and port of a name server, like 10.0.0.1:53 or [fd00::1]:53, got "
                            "\"{}\"",
                            server));
  }

  void ask_only(const sockaddr_in& address) {
    ::res_nclose(&state_);
    state_.nscount = 1;
    state_.nsaddr_list[0] = address;
  }

  // The list has no room for an address of IPv6. The C library has those beside it, in memory that it frees with
  // res_nclose(); a place of the list without a family stands for one.
  Result<void> ask_only(const sockaddr_in6& address) {
    auto* const kept = static_cast<sockaddr_in6*>(std::malloc(sizeof(sockaddr_in6)));
    if (kept == nullptr) return fail(ErrorCode::kResourceExhausted, "no memory for the address of a name server");
    *kept = address;
    ::res_nclose(&state_);
    state_.nscount = 1;
    state_.nsaddr_list[0] = {};
    state_._u._ext.nscount = 1;
    state_._u._ext.nsaddrs[0] = kept;
    state_._u._ext.nssocks[0] = -1;
    return {};
  }

  struct __res_state state_{};
  bool open_ = false;
  std::vector<std::uint8_t> message_;
};

std::string text_of(int family, const std::uint8_t* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return ::inet_ntop(family, address, text.data(), text.size()) != nullptr ? text.data() : "";
}

/// Both kinds of addresses of a name. If one kind cannot be asked for, half an answer would be a wrong one.
Result<DnsRecords> addresses_of(Resolver& resolver, const std::string& name) {
  DnsRecords all;
  for (const int type : {static_cast<int>(ns_t_a), static_cast<int>(ns_t_aaaa)}) {
    auto found = resolver.ask(name, type);
    if (!found && found.error().code == ErrorCode::kNotFound) continue;
    if (!found) return found;
    all.addresses.insert(all.addresses.end(), found->addresses.begin(), found->addresses.end());
    all.least_ttl_s = std::min(all.least_ttl_s, found->least_ttl_s);
  }
  return all;
}

Result<DnsAnswer> finished(DnsAnswer answer, const std::string& name, std::uint32_t ttl_s) {
  std::ranges::sort(answer.endpoints);
  const auto repeated = std::ranges::unique(answer.endpoints);
  answer.endpoints.erase(repeated.begin(), repeated.end());
  if (answer.endpoints.empty()) return fail(ErrorCode::kNotFound, fmt::format("{}: no address is known", name));
  if (answer.endpoints.size() > kMostDnsEndpoints) {
    return fail(ErrorCode::kTooLarge,
                fmt::format("{}: {} addresses, expected at most {}", name, answer.endpoints.size(), kMostDnsEndpoints));
  }
  answer.ttl = std::chrono::seconds(ttl_s);
  return answer;
}

Result<DnsAnswer> services_of(Resolver& resolver, const std::string& name) {
  KVIST_TRY(DnsRecords found, resolver.ask(name, ns_t_srv));
  DnsAnswer answer;
  std::uint32_t ttl_s = found.least_ttl_s;
  if (found.services.empty()) return finished(std::move(answer), name, ttl_s);
  const std::uint16_t first = std::ranges::min(found.services, {}, &DnsRecords::Service::priority).priority;
  std::erase_if(found.services, [&](const DnsRecords::Service& service) { return service.priority != first; });
  if (found.services.size() > kMostServices) {
    return fail(ErrorCode::kTooLarge,
                fmt::format("{}: {} services, expected at most {}", name, found.services.size(), kMostServices));
  }
  for (const DnsRecords::Service& service : found.services) {
    KVIST_TRY(const DnsRecords host, addresses_of(resolver, service.target));
    ttl_s = std::min(ttl_s, host.least_ttl_s);
    for (const std::string& address : host.addresses)
      answer.endpoints.push_back({.address = address, .port = service.port});
  }
  return finished(std::move(answer), name, ttl_s);
}

}  // namespace

Result<DnsRecords> read_dns_records(const std::uint8_t* message, std::size_t size) {
  const auto broken = [] { return fail(ErrorCode::kCorrupt, "a name server's answer cannot be read"); };
  ns_msg parsed;
  if (::ns_initparse(message, static_cast<int>(size), &parsed) != 0) return broken();
  DnsRecords records;
  const int count = ns_msg_count(parsed, ns_s_an);
  for (int i = 0; i < count; ++i) {
    ns_rr record;
    if (::ns_parserr(&parsed, ns_s_an, i, &record) != 0) return broken();
    if (ns_rr_class(record) != ns_c_in) continue;
    const std::uint8_t* const data = ns_rr_rdata(record);
    const std::size_t length = ns_rr_rdlen(record);
    const auto type = ns_rr_type(record);
    constexpr std::size_t kServiceHead = 6;
    if (type == ns_t_a && length == NS_INADDRSZ) {
      records.addresses.push_back(text_of(AF_INET, data));
    } else if (type == ns_t_aaaa && length == NS_IN6ADDRSZ) {
      records.addresses.push_back(text_of(AF_INET6, data));
    } else if (type == ns_t_srv && length > kServiceHead) {
      std::array<char, NS_MAXDNAME> target{};
      if (::ns_name_uncompress(message, message + size, data + kServiceHead, target.data(), target.size()) < 0)
        return broken();
      records.services.push_back({.priority = static_cast<std::uint16_t>(data[0] << 8 | data[1]),
                                  .port = static_cast<std::uint16_t>(data[4] << 8 | data[5]),
                                  .target = target.data()});
    } else {
      continue;  // an alias, whose target's records follow
    }
    records.least_ttl_s = std::min(records.least_ttl_s, ns_rr_ttl(record));
  }
  return records;
}

Result<DnsAnswer> look_up(const DnsQuestion& question) {
  KVIST_TRY(const auto resolver, Resolver::open(question.server));
  if (question.services) return services_of(*resolver, question.name);
  KVIST_TRY(const DnsRecords found, addresses_of(*resolver, question.name));
  DnsAnswer answer;
  for (const std::string& address : found.addresses)
    answer.endpoints.push_back({.address = address, .port = question.port});
  return finished(std::move(answer), question.name, found.least_ttl_s);
}

class DnsLookups::Thread : public std::enable_shared_from_this<DnsLookups::Thread> {
 public:
  explicit Thread(EventLoop& loop) : loop_(&loop) {}

  void ask(DnsQuestion question, std::function<void(Result<DnsAnswer>)> then) {
    const std::scoped_lock lock(mutex_);
    questions_.push_back({std::move(question), std::move(then)});
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    woken_.notify_one();
  }
  void stop() {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
      questions_.clear();
    }
    woken_.notify_one();
    if (thread_.joinable()) thread_.join();
    over_ = true;
  }

 private:
  struct Asked {
    DnsQuestion question;
    std::function<void(Result<DnsAnswer>)> then;
  };

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      woken_.wait(lock, [this] { return stopping_ || !questions_.empty(); });
      if (stopping_) return;
      Asked asked = std::move(questions_.front());
      questions_.pop_front();
      lock.unlock();
      Result<DnsAnswer> answer = look_up(asked.question);
      loop_->post([self = shared_from_this(), then = std::move(asked.then), answer = std::move(answer)]() mutable {
        if (!self->over_) then(std::move(answer));
      });
      lock.lock();
    }
  }

  EventLoop* loop_;
  std::mutex mutex_;
  std::condition_variable woken_;
  std::deque<Asked> questions_;
  bool stopping_ = false;
  bool over_ = false;  // the loop's
  std::thread thread_;
};

DnsLookups::DnsLookups(EventLoop& loop) : thread_(std::make_shared<Thread>(loop)) {}

DnsLookups::~DnsLookups() {
  thread_->stop();
}

void DnsLookups::ask(DnsQuestion question, std::function<void(Result<DnsAnswer>)> then) {
  thread_->ask(std::move(question), std::move(then));
}

}  // namespace kvist::net
