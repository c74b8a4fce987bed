#include "kvist/net/receive_stamps.h"

#include <linux/net_tstamp.h>
#include <linux/tcp.h>  // in place of the C library's, whose tcp_info has no number of packets
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <ctime>

#include "kvist/net/event_loop.h"

namespace kvist::net {
namespace {

constexpr int kStamps = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
/// The system's three stamps: in software, an old one, by the hardware.
using StampTriple = std::array<timespec, 3>;

Duration real_time() {
  timespec at{};
  (void)::clock_gettime(CLOCK_REALTIME, &at);
  return std::chrono::seconds(at.tv_sec) + std::chrono::nanoseconds(at.tv_nsec);
}

std::optional<Duration> software_stamp(msghdr& message) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SO_TIMESTAMPING) continue;
    if (part->cmsg_len < CMSG_LEN(sizeof(StampTriple))) continue;
    StampTriple stamps{};
    std::memcpy(&stamps, CMSG_DATA(part), sizeof(stamps));
    if (stamps[0].tv_sec == 0 && stamps[0].tv_nsec == 0) continue;
    return std::chrono::seconds(stamps[0].tv_sec) + std::chrono::nanoseconds(stamps[0].tv_nsec);
  }
  return std::nullopt;
}

std::optional<std::uint32_t> data_packets(int socket) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  if (size < offsetof(tcp_info, tcpi_data_segs_in) + sizeof(info.tcpi_data_segs_in)) return std::nullopt;
  return info.tcpi_data_segs_in;
}

bool nothing_unread(int socket) {
  int bytes = 0;
  return ::ioctl(socket, FIONREAD, &bytes) == 0 && bytes == 0;
}

}  // namespace

void ReceiveStamps::enable(int socket) {
  (void)::setsockopt(socket, SOL_SOCKET, SO_TIMESTAMPING, &kStamps, sizeof(kStamps));
}

ssize_t ReceiveStamps::receive(int socket, char* buffer, std::size_t size) {
  alignas(cmsghdr) std::array<char, 256> control;  // the system says how much of it it has filled
  iovec piece{.iov_base = buffer, .iov_len = size};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t bytes = ::recvmsg(socket, &message, 0);
  if (bytes <= 0) return bytes;
  // A read that fills the buffer may leave the rest of a packet, which the next one then counts again.
  if (static_cast<std::size_t>(bytes) == size) counting_ = false;
  ++reads_since_;
  arrived_.reset();
  const std::optional<Duration> stamp = software_stamp(message);
  if (!stamp) return bytes;
  const TimePoint at = now();
  const Duration age = real_time() - *stamp;
  if (age >= Duration::zero()) arrived_ = at - age;
  return bytes;
}

// Every read takes at least one packet. So if there were as many packets as reads, each read took exactly one. Packets
// that arrived meanwhile and are unread only make the sum larger.
bool ReceiveStamps::was_one_packet(int socket) {
  const std::optional<std::uint32_t> packets = data_packets(socket);
  const bool one = counting_ && packets && *packets - packets_before_ == reads_since_;
  counting_ = packets && nothing_unread(socket);
  packets_before_ = packets.value_or(0);
  reads_since_ = 0;
  return one;
}

UniqueFd ReceiveStamps::keep_stamping() {
  UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (socket.valid()) (void)::setsockopt(socket.get(), SOL_SOCKET, SO_TIMESTAMPING, &kStamps, sizeof(kStamps));
  return socket;
}

}  // namespace kvist::net
