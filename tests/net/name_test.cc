// Names of workers: several addresses, and the threads that look names up.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/net/name_resolver.h"
#include "net/http_client_fixture.h"

namespace {

constexpr const char* kTwoAddresses = "two-addresses.test";
constexpr const char* kFirstAddress = "127.0.0.2";

/// Holds look-ups of the names "gated-..." up, and counts them.
class Gate {
 public:
  void pass(const std::string& host) {
    std::unique_lock lock(mutex_);
    ++look_ups_[host];
    most_ = std::max(most_, ++waiting_);
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    --waiting_;
  }
  void await_waiting(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ == count; });
  }
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  int look_ups(const std::string& host) {
    const std::scoped_lock lock(mutex_);
    return look_ups_[host];
  }
  std::size_t most_at_once() {
    const std::scoped_lock lock(mutex_);
    return most_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int> look_ups_;
  std::size_t waiting_ = 0;
  std::size_t most_ = 0;
  bool open_ = false;
};
Gate gate;

}  // namespace

// What is not defined here is the system's own.
extern "C" int getaddrinfo(const char* host, const char* port, const addrinfo* hints, addrinfo** found) {
  static const auto system = reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const std::string_view name = host == nullptr ? "" : host;
  const bool ours = name.starts_with("gated-") || name == kTwoAddresses;
  if (!ours) return system(host, port, hints, found);
  if ((hints->ai_flags & AI_NUMERICHOST) != 0) return EAI_NONAME;
  if (name == kTwoAddresses) {
    if (const int error = system(kFirstAddress, port, hints, found); error != 0) return error;
    return system("127.0.0.1", port, hints, &(*found)->ai_next);
  }
  gate.pass(std::string(name));
  return system("127.0.0.1", port, hints, found);
}

namespace kvist::net::name_test {
namespace {

using std::chrono::seconds;

/// Listens, but answers nobody: its queue of connections is full.
class BlackHole {
 public:
  explicit BlackHole(std::uint16_t port)
      : fd_(socket(AF_INET, SOCK_STREAM, 0)), full_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    inet_pton(AF_INET, kFirstAddress, &address.sin_addr);
    const auto* const plain = reinterpret_cast<const sockaddr*>(&address);
    if (bind(fd_, plain, sizeof(address)) != 0 || listen(fd_, 0) != 0 || connect(full_, plain, sizeof(address)) != 0) {
      throw std::runtime_error("cannot listen");
    }
  }
  ~BlackHole() {
    close(fd_);
    close(full_);
  }
  BlackHole(const BlackHole&) = delete;
  BlackHole& operator=(const BlackHole&) = delete;

 private:
  int fd_;
  int full_;
};

class NameTest : public HttpClientTest {
 protected:
  /// Calls a name with two addresses, of which the second one's server answers.
  void expect_answer_of_the_second() {
    Seen seen;
    start(seen, get(), seconds(20), "http://" + std::string(kTwoAddresses) + ":" + std::to_string(peer_.port()));
    const RawSocket socket = accept_request();
    ASSERT_TRUE(socket.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    ASSERT_TRUE(wait_over(seen));
    EXPECT_EQ(seen.status, 200) << seen.error.message;
  }
};

TEST_F(NameTest, AnAddressThatDoesNotAnswerLeavesTimeForTheNext) {
  const BlackHole hole(peer_.port());
  HttpClientOptions options;
  options.connect_timeout = seconds(2);
  make_client(options);
  expect_answer_of_the_second();
}

TEST_F(NameTest, AnAddressThatRefusesIsFollowedByTheNext) {
  expect_answer_of_the_second();
}

TEST(NameResolver, HasAFewThreadsAndAsksOnceForAName) {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t answered = 0;
  NameResolver resolver([](const std::function<void()>& work) { work(); });
  const auto ask = [&](const std::string& host) {
    resolver.resolve(host, 1, [&](const Result<std::vector<Endpoint>>& found) {
      EXPECT_TRUE(found) << found.error().message;
      const std::scoped_lock lock(mutex);
      ++answered;
      changed.notify_all();
    });
  };
  constexpr std::size_t kNames = 2 * NameResolver::kMostThreads;
  constexpr std::size_t kAskers = 50;
  for (std::size_t i = 0; i < kNames; ++i) {
    for (std::size_t asker = 0; asker < kAskers; ++asker) ask("gated-" + std::to_string(i));
  }
  gate.await_waiting(NameResolver::kMostThreads);
  for (std::size_t i = 0; i < kNames; ++i) ask("gated-" + std::to_string(i));
  gate.open();
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return answered == kNames * (kAskers + 1); });
  EXPECT_EQ(gate.most_at_once(), NameResolver::kMostThreads);
  for (std::size_t i = 0; i < kNames; ++i) EXPECT_EQ(gate.look_ups("gated-" + std::to_string(i)), 1) << i;
}

TEST(NameResolver, LetsAnAskerGoOnlyOnTheLoop) {
  const auto held = std::make_shared<int>(0);
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::function<void()>> posted;
  std::vector<std::int64_t> holders;
  NameResolver resolver([&](std::function<void()> work) {
    const std::scoped_lock lock(mutex);
    posted.push_back(std::move(work));
    holders.push_back(held.use_count());
    changed.notify_all();
  });
  // By an initialiser, as a copy of a const is const itself: it would be copied, not moved, out of this thread's
  // lambda.
  resolver.resolve("localhost", 1, [asker = held](const Result<std::vector<Endpoint>>&) {});
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return !posted.empty(); });
  EXPECT_EQ(holders[0], 2) << "the test and the posted work; otherwise the resolver's thread may be the last";
  posted.clear();
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace kvist::net::name_test
