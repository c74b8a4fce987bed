// Private to net: one TCP connection, whose bytes go out when the handler that wrote them returns.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "kvist/net/loop_impl.h"
#include "kvist/net/socket.h"

namespace kvist::net {

/// What server and client connections have in common. Owned through shared pointers. Loop thread only.
/// Invariants: bytes go out in the order of send(); while the socket takes them, all that one handler sends to one
/// connection is one write. What is read is in the loop's one buffer: a connection at rest has none.
class TcpConnection : public Watched, public Flushed, public std::enable_shared_from_this<TcpConnection> {
 public:
  TcpConnection(LoopImpl& loop, UniqueFd socket);
  ~TcpConnection() override { close(); }

  /// Reads once, as soon as there is something, and calls on_read() or on_read_failed(); nothing if a read is
  /// outstanding already. To be called once it is owned by a shared pointer.
  void start_read();
  /// Sends the pieces in order, when the handler under way returns, and then as the socket becomes free. False: the
  /// connection is broken, and on_send_failed() will not be called.
  [[nodiscard]] bool send(std::initializer_list<std::string_view> pieces);
  /// Bytes given to send() that the socket has not taken yet.
  [[nodiscard]] std::size_t unsent() const { return out_.size() - sent_; }
  /// Closes at once, what the socket has not taken is lost; no callback comes any more.
  void close();
  /// The same, but the peer is told that the stream broke off instead of ending (TCP reset).
  void close_with_reset();
  /// Has the socket take what it can now: what was sent by the handler under way is not lost when it closes.
  void send_now();
  /// Ends the sending direction: the peer reads the end of the stream, and can still send.
  void finish_sending();
  [[nodiscard]] bool closed() const { return !socket_.valid(); }

 protected:
  /// Bytes were read; the view holds during the call.
  virtual void on_read(std::string_view bytes) = 0;
  /// The peer has closed (`end`) or the connection broke.
  virtual void on_read_failed(bool end, const std::string& why) = 0;
  /// The socket takes no more for now.
  virtual void on_blocked() {}
  /// The socket took some or all of what was to be sent; unsent() tells what is left.
  virtual void on_sent() = 0;
  /// Sending failed.
  virtual void on_send_failed(const std::string& why) = 0;
  using Watched::loop;

 private:
  void on_ready() override;
  void flush() override;
  void read();
  /// Has the socket take from out_. Whether it could; errno says why not.
  [[nodiscard]] bool write_some();

  UniqueFd socket_;
  std::string out_;       // to be written, from sent_ on
  std::size_t sent_ = 0;  // bytes of it that the socket has
  bool reading_ = false;  // start_read() was called
  bool blocked_ = false;  // the socket takes no more for now
};

}  // namespace kvist::net
