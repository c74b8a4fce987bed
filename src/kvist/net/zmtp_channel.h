// Private to net: a connection to a ZeroMQ peer that is made again whenever it ends.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/net/pending_connect.h"
#include "kvist/net/reconnect_delay.h"
#include "kvist/net/zmtp_connection.h"
#include "kvist/net/zmtp_endpoint.h"

namespace kvist::net {

/// Connects to an endpoint, again after each end, or listens where peers connect. Whatever a peer sends ends at most
/// its connection. Threads: the loop's, except for the constructor.
class ZmtpChannel : public std::enable_shared_from_this<ZmtpChannel> {
 public:
  /// Where it listens, the peers that it takes at once.
  static constexpr std::size_t kMostPeers = 64;
  static constexpr Duration kConnectTime = std::chrono::seconds(3);

  /// No handler may destroy the channel.
  struct Handlers {
    std::function<void()> on_up;
    std::function<void(ZmtpMessage&)> on_message;
    std::function<void(const std::string& why)> on_down;  ///< a connection that was up ended
    std::function<void(const std::string& what)>
        on_broken;  ///< a peer did not keep to the protocol; on_down may follow
    std::function<void(const std::string& why)> on_failed = {};  ///< an attempt to connect ended without a handshake
  };

  ZmtpChannel(ZmtpEndpoint endpoint, ZmtpRole role, Handlers handlers);
  ~ZmtpChannel();
  ZmtpChannel(const ZmtpChannel&) = delete;
  ZmtpChannel& operator=(const ZmtpChannel&) = delete;

  /// If it listens: takes the port. Threads: any, before start().
  [[nodiscard]] Result<void> open();
  /// Once.
  void start(LoopImpl& loop);
  /// Ends everything. No handler is called any more.
  void stop();
  /// Sends to the peer, or when there is one: then only what was given last, as a newer request takes the place of one
  /// that was never sent.
  void send(std::string bytes);

 private:
  class Acceptor;

  void connect();
  void connect_next();
  void on_connected(UniqueFd socket);
  void adopt(UniqueFd socket);
  void retry(Duration stood_for, bool broken);
  void fail_attempt(const std::string& why);
  void on_up(ZmtpConnection& connection);
  void on_down(const std::shared_ptr<ZmtpConnection>& connection, const std::string& why, bool broken);

  const ZmtpEndpoint endpoint_;
  const ZmtpRole role_;
  const Handlers handlers_;
  ReconnectDelay delay_;
  LoopImpl* loop_ = nullptr;
  UniqueFd listening_;  // until start()
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<TimerNode> timer_;
  std::vector<Endpoint> addresses_;
  std::size_t next_address_ = 0;
  std::string problem_;  // of the address that was tried last
  std::unique_ptr<PendingConnect> connecting_;
  std::set<std::shared_ptr<ZmtpConnection>> connections_;
  std::string waiting_;  // for a connection; empty: nothing
};

}  // namespace kvist::net
