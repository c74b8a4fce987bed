// Private to net: what publisher and subscriber have in common.
#pragma once

#include <pthread.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <thread>
#include <utility>

namespace kvist::net {

/// The number in the message that ends a replay.
inline constexpr std::uint64_t kReplayEnd = std::numeric_limits<std::uint64_t>::max();

/// A message number as it travels: 64 bits, big-endian.
using SequenceBytes = std::array<unsigned char, 8>;

[[nodiscard]] inline SequenceBytes encode_sequence(std::uint64_t sequence) {
  SequenceBytes bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(sequence >> (56 - 8 * i));
  return bytes;
}

/// Requires: is_sequence(frame).
[[nodiscard]] inline std::uint64_t decode_sequence(std::string_view frame) {
  std::uint64_t sequence = 0;
  for (const char byte : frame) sequence = sequence << 8 | static_cast<unsigned char>(byte);
  return sequence;
}

[[nodiscard]] inline bool is_sequence(std::string_view frame) {
  return frame.size() == sizeof(SequenceBytes);
}

/// Starts a thread that receives no signals, because they belong to the event loop's thread and would interrupt
/// ZeroMQ's calls.
template <class Function>
[[nodiscard]] std::thread start_quiet_thread(Function function) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(function));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace kvist::net
