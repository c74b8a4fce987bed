// Private to net: what publisher and subscriber have in common, on the wire and in their use of ZeroMQ.
#pragma once

#include <pthread.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <zmq.hpp>

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
[[nodiscard]] inline std::uint64_t decode_sequence(const zmq::message_t& frame) {
  SequenceBytes bytes{};
  std::memcpy(bytes.data(), frame.data(), bytes.size());
  std::uint64_t sequence = 0;
  for (const unsigned char byte : bytes) sequence = sequence << 8 | byte;
  return sequence;
}

[[nodiscard]] inline bool is_sequence(const zmq::message_t& frame) {
  return frame.size() == sizeof(SequenceBytes);
}

/// A pair of sockets over which other threads wake the thread that polls, because a socket must not be shared between
/// threads.
struct ControlPair {
  ControlPair(zmq::context_t& context, const std::string& name)
      : inner(context, zmq::socket_type::pair), outer(context, zmq::socket_type::pair) {
    inner.bind("inproc://" + name);
    outer.connect("inproc://" + name);
    outer.set(zmq::sockopt::linger, 0);
    inner.set(zmq::sockopt::linger, 0);
  }
  zmq::socket_t inner;  ///< the polling thread's end
  zmq::socket_t outer;  ///< everyone else's, under a mutex
};

/// Waits until one of the sockets has something to read.
template <std::size_t kCount>
void await_readable(std::array<zmq::pollitem_t, kCount>& items) {
  while (zmq_poll(items.data(), static_cast<int>(items.size()), -1) < 0) {
    if (zmq_errno() != EINTR) throw zmq::error_t();
  }
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
