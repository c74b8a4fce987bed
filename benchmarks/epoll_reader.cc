// A bare reader of streams: epoll and read() into one buffer, nothing is parsed. What it takes per event is what any
// client has to pay. usage: epoll_reader PORT STREAMS TOKENS SECONDS -> one line of JSON: the bytes that were read
// within the seconds, and the processor time.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::string request_of(unsigned tokens) {
  const std::string body = R"({"model":"reference","stream":true,"max_tokens":)" + std::to_string(tokens) +
                           R"(,"messages":[{"role":"user","content":")" + std::string(64, 'x') + R"("}]})";
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

int connect_to(std::uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0 || connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    std::perror("connect");
    std::exit(1);
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

void send_all(int fd, std::string_view bytes) {
  if (write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size())) return;
  std::perror("write");
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: epoll_reader PORT STREAMS TOKENS SECONDS\n");
    return 2;
  }
  const auto port = static_cast<std::uint16_t>(std::atoi(argv[1]));
  const int streams = std::atoi(argv[2]);
  const std::string request = request_of(static_cast<unsigned>(std::atoi(argv[3])));
  const std::chrono::duration<double> length(std::atof(argv[4]));
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  const int epoll = epoll_create1(0);
  for (int i = 0; i < streams; ++i) {
    const int fd = connect_to(port);
    send_all(fd, request);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    event.data.fd = fd;
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
  }
  std::array<epoll_event, 1'024> events{};
  std::vector<char> buffer(64U << 10);
  std::uint64_t bytes = 0;
  const double cpu_before = cpu_seconds();
  const Clock::time_point begin = Clock::now();
  while (Clock::now() - begin < length) {
    const int n = epoll_wait(epoll, events.data(), static_cast<int>(events.size()), 100);
    for (int i = 0; i < n; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      const ssize_t got = recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got <= 0) continue;
      bytes += static_cast<std::uint64_t>(got);
      // The end of an answer is the beginning of the next. Its last bytes are the only ones that are looked at.
      if (std::string_view(buffer.data(), static_cast<std::size_t>(got)).ends_with("\r\n0\r\n\r\n"))
        send_all(fd, request);
    }
  }
  const double wall = std::chrono::duration<double>(Clock::now() - begin).count();
  std::printf(R"({"bytes": %llu, "seconds": %.6f, "cpu_seconds": %.6f})"
              "\n",
              static_cast<unsigned long long>(bytes), wall, cpu_seconds() - cpu_before);
  return 0;
}
