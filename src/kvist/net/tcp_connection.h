// Private to net: a TCP connection, whose bytes are sent when the handler that wrote them returns.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/net/loop_impl.h"
#include "kvist/net/receive_stamps.h"
#include "kvist/net/socket.h"

namespace kvist::net {

class TlsSession;

/// The common part of server and client connections. Owned through shared pointers. Threads: the loop's. Invariants:
/// bytes are sent in the order of send(). While the socket takes them, all that one handler sends to one connection is
/// one write. Reads use the loop's buffer, so an idle connection has none.
class TcpConnection : public Watched, public Flushed, public std::enable_shared_from_this<TcpConnection> {
 public:
  TcpConnection(LoopImpl& loop, UniqueFd socket);
  /// `tls`: what the bytes go through; null: nothing.
  TcpConnection(LoopImpl& loop, UniqueFd socket, std::unique_ptr<TlsSession> tls);
  ~TcpConnection() override;

  /// Reads once, as soon as there is something, and calls on_read() or on_read_failed(). Does nothing if a read is
  /// outstanding already. Requires: this object is owned by a shared pointer.
  void start_read();
  /// Sends the pieces in order when the present handler returns, and then as the socket becomes free. Returns false if
  /// the connection is broken; then on_send_failed() is not called.
  [[nodiscard]] bool send(std::initializer_list<std::string_view> pieces);
  /// The number of bytes given to send() that the socket has not taken yet.
  [[nodiscard]] std::size_t unsent() const { return out_.size() - sent_; }
  /// The number of bytes that the peer's system has taken: not those in this system's buffer, which can be megabytes.
  [[nodiscard]] std::uint64_t bytes_received_by_peer() const;
  /// Closes at once. Bytes that the socket has not taken are lost, and no callback is called any more.
  void close();
  /// Like close(), but with a TCP reset, so that the peer sees that the stream broke off.
  void close_with_reset();
  /// Lets the socket take what it can now, so that what the present handler has sent is not lost by a close().
  void send_now();
  /// Closes the sending direction. The peer reads the end of the stream and can still send.
  void finish_sending();
  [[nodiscard]] bool closed() const { return !socket_.valid(); }
  /// Whether the system has bytes that were not read yet.
  [[nodiscard]] bool has_unread_bytes() const;

  /// From now on it is known when the bytes of a read had arrived, and when a write began. Requires: nothing was read
  /// yet.
  void stamp_reads();
  /// ReceiveStamps::arrived(); nothing without stamp_reads().
  [[nodiscard]] std::optional<TimePoint> arrived() const;
  /// Whether all that the last read gave arrived at once, as far as is known: never behind TLS, which reads in parts.
  [[nodiscard]] bool was_one_packet();
  /// When the write began in which the socket took the last bytes. Requires: stamp_reads().
  [[nodiscard]] TimePoint write_began() const { return write_began_; }
  using Watched::came_after;
  using Watched::quiet_until;
  /// Whether the TLS handshake is under way. What is sent meanwhile waits.
  [[nodiscard]] bool in_handshake() const;

 protected:
  /// Bytes were read. The view is valid during the call.
  virtual void on_read(std::string_view bytes) = 0;
  /// The peer has closed (`end`), or the connection broke.
  virtual void on_read_failed(bool end, const std::string& why) = 0;
  /// The peer has closed its side, or the connection broke, while nobody reads. May be called again. If the peer's last
  /// bytes do not fit into this system's buffer, its system holds back that it has closed.
  virtual void on_hung_up() {}
  /// The socket takes no more for now.
  virtual void on_blocked() {}
  /// The socket took some or all of the bytes; unsent() is the rest.
  virtual void on_sent() = 0;
  /// The TLS handshake is complete, or it failed.
  virtual void on_established() {}
  virtual void on_handshake_failed(const std::string& why) { on_read_failed(false, why); }
  /// Sending failed.
  virtual void on_send_failed(const std::string& why) = 0;
  using Watched::hung_up_;
  using Watched::loop;

 private:
  void on_ready() override;
  void flush() override;
  void read();
  /// Goes on with the TLS handshake. Returns whether bytes can be read and written.
  [[nodiscard]] bool proceed_with_tls();
  /// Why the last read or write failed.
  [[nodiscard]] std::string why_failed() const;
  /// Writes from out_ to the socket. Returns whether it could; otherwise errno has the reason.
  [[nodiscard]] bool write_some();

  UniqueFd socket_;
  std::unique_ptr<TlsSession> tls_;
  std::string out_;       // the bytes from sent_ on are still to be written
  std::size_t sent_ = 0;  // bytes of it that the socket has taken
  std::uint64_t bytes_sent_ = 0;
  std::unique_ptr<ReceiveStamps> stamps_;  // null: reads are not stamped
  TimePoint write_began_;
  bool reading_ = false;  // start_read() was called
  bool blocked_ = false;  // the socket takes no more for now
};

}  // namespace kvist::net
