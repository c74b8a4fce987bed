// Private to net: the first byte of a frame of ZMTP 3 (rfc.zeromq.org, 23/ZMTP).
#pragma once

namespace kvist::net {

/// Bits of it. The others are 0.
struct ZmtpFlags {
  static constexpr unsigned char kMore = 1;     ///< another frame of the same message follows
  static constexpr unsigned char kLong = 2;     ///< the size has 8 bytes instead of 1
  static constexpr unsigned char kCommand = 4;  ///< no message; never with kMore
};

}  // namespace kvist::net
