// Private to net: when the system had the bytes that a read gave.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kvist/base/time.h"
#include "kvist/net/socket.h"

namespace kvist::net {

/// Reads from a socket whose packets the system stamps as they arrive (SO_TIMESTAMPING, in software: when the driver,
/// or the loopback, hands a packet to the network stack). A read that takes several packets tells the stamp of the last
/// one only. The system's stamps are of the real-time clock; they are converted at the read, so that only a step of
/// that clock between a packet and its read falsifies one. Threads: the loop's.
class ReceiveStamps {
 public:
  /// Asks for stamps from now on. Without them, reads work and have none. Requires: nothing was read yet.
  void enable(int socket);
  /// As recv().
  [[nodiscard]] ssize_t receive(int socket, char* buffer, std::size_t size);

  /// When the last packet of the last read arrived, in core time; nothing if it has no stamp.
  [[nodiscard]] std::optional<TimePoint> arrived() const { return arrived_; }
  /// Whether all bytes of the last read were of one packet, so that they arrived together. Asks the system for the
  /// number of packets so far; false where that leaves a doubt.
  [[nodiscard]] bool was_one_packet(int socket);

  /// The system stamps packets only while some socket asks for it, and begins a moment after the first one does. This
  /// one asks as long as it is open.
  [[nodiscard]] static UniqueFd keep_stamping();

 private:
  std::optional<TimePoint> arrived_;
  // Packets and reads are counted from an instant at which everything that had arrived was read. A read without an
  // exact count since then makes the next count one of unknown packets.
  std::uint32_t packets_before_ = 0;
  std::uint32_t reads_since_ = 0;
  bool counting_ = true;
};

}  // namespace kvist::net
