// Private to net: one TCP connection, read into a buffer of its own and written without delay.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "kvist/net/loop_impl.h"

namespace kvist::net {

/// What server and client connections have in common. Owned through shared pointers: each outstanding operation holds
/// one, so the object outlives it. Loop thread only.
/// Invariants: at most one read and one write are outstanding; bytes go out in the order of send().
class TcpConnection : public std::enable_shared_from_this<TcpConnection> {
 public:
  TcpConnection(LoopImpl& loop, Socket socket, std::size_t read_buffer_bytes);
  virtual ~TcpConnection() = default;
  TcpConnection(const TcpConnection&) = delete;
  TcpConnection& operator=(const TcpConnection&) = delete;

  /// Reads once and calls on_read() or on_read_failed(); nothing if a read is outstanding already.
  void start_read();
  /// Sends the pieces (at most four) in order: at once what the socket takes, the rest as it becomes free; what queues
  /// up meanwhile goes out as one write. False: the connection is broken, and on_send_failed() will not be called.
  [[nodiscard]] bool send(std::initializer_list<std::string_view> pieces);
  /// Bytes given to send() that the socket has not taken yet.
  [[nodiscard]] std::size_t unsent() const { return flying_.size() - flown_ + queued_.size(); }
  /// Closes at once; no callback comes any more.
  void close();
  /// The same, but the peer is told that the stream broke off instead of ending (TCP reset).
  void close_with_reset();
  /// Ends the sending direction: the peer reads the end of the stream, and can still send.
  void finish_sending();
  [[nodiscard]] bool closed() const { return closed_; }

 protected:
  /// Bytes were read; the view holds during the call.
  virtual void on_read(std::string_view bytes) = 0;
  /// The peer has closed (`end`) or the connection broke.
  virtual void on_read_failed(bool end, const std::string& why) = 0;
  /// The socket has taken queued bytes; unsent() tells what is left.
  virtual void on_sent() = 0;
  /// A queued write failed.
  virtual void on_send_failed(const std::string& why) = 0;

  [[nodiscard]] LoopImpl& loop() { return loop_; }

 private:
  void write_queued();

  LoopImpl& loop_;
  Socket socket_;
  std::size_t buffer_bytes_;
  std::unique_ptr<char[]> buffer_;
  std::string flying_;  // being written, from flown_ on; empty while no write is outstanding
  std::size_t flown_ = 0;
  std::string queued_;  // to be written after it
  bool reading_ = false;
  bool closed_ = false;
};

}  // namespace kvist::net
