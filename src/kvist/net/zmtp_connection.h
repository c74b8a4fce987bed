// Private to net: one connection to a ZeroMQ peer.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "kvist/base/time.h"
#include "kvist/net/heartbeat.h"
#include "kvist/net/tcp_connection.h"
#include "kvist/net/zmtp_decoder.h"

namespace kvist::net {

/// What our end of a connection is, and what it asks for at once.
struct ZmtpRole {
  std::string socket_type;                   ///< "SUB", "DEALER"
  std::vector<std::string_view> peer_types;  ///< those that fit it; of static storage
  std::string first_bytes;                   ///< sent after the handshake
};

/// Shakes hands, reads messages, and gives up a peer that is silent even when asked (Heartbeat). One that speaks
/// version 3.0, without PING, is left to TCP's keep-alive. Threads: the loop's.
class ZmtpConnection final : public TcpConnection, private ZmtpDecoder::Sink {
 public:
  /// What may wait to be sent. A peer that reads so little is given up.
  static constexpr std::size_t kMostUnsent = 64U << 10;

  /// No handler may destroy the connection's last owner; each may close() it.
  struct Handlers {
    std::function<void()> on_up;
    std::function<void(ZmtpMessage&)> on_message;
    /// The connection is closed. `broken`: the peer did not keep to the protocol. Called once, and never by close().
    std::function<void(const std::string& why, bool broken)> on_down;
  };

  ZmtpConnection(LoopImpl& loop, UniqueFd socket, const ZmtpRole& role, Handlers handlers);
  /// Requires: this object is owned by a shared pointer.
  void start();
  /// Requires: on_up was called. Returns false if the bytes have no room.
  [[nodiscard]] bool send_bytes(std::string_view bytes);
  [[nodiscard]] bool up() const { return up_since_ != TimePoint() && !closed(); }
  /// For how long it has been, or was, up.
  [[nodiscard]] Duration stood_for() const { return up_since_ == TimePoint() ? Duration() : now() - up_since_; }

 private:
  void on_read(std::string_view bytes) override;
  void on_read_failed(bool end, const std::string& why) override;
  void on_sent() override {}
  void on_send_failed(const std::string& why) override { give_up(why, false); }
  [[nodiscard]] bool urgent() const override { return false; }
  void on_handshake(bool heartbeats) override;
  void on_message(ZmtpMessage& frames) override;
  void on_ping(std::string_view context) override;

  void beat();
  void give_up(const std::string& why, bool broken);

  const std::string hello_;
  const std::string first_bytes_;
  const Handlers handlers_;
  ZmtpDecoder decoder_;
  TimerNode timer_;
  Heartbeat heartbeat_;
  TimePoint up_since_;  // the epoch: never
};

}  // namespace kvist::net
