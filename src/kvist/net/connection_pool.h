// Private to net: the idle connections of one HttpClient.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kvist/net/http_client.h"
#include "kvist/net/receive_stamps.h"
#include "kvist/net/tcp_connection.h"
#include "kvist/net/url.h"

namespace kvist::net {

class ClientCall;
class ConnectionPool;

/// A server as calls need it.
struct KnownServer {
  HttpUrl url;
  std::string fields;              ///< lines for the head of each request to it
  std::shared_ptr<TlsClient> tls;  ///< null: plain HTTP
};

/// The client's side of a connection. It is used by one call, or idle in the pool, where it keeps reading to notice
/// when the server closes it. Threads: the loop's.
class ClientConnection final : public TcpConnection {
 public:
  ClientConnection(LoopImpl& loop, UniqueFd socket, std::unique_ptr<TlsSession> tls, std::string base_url,
                   std::weak_ptr<ConnectionPool> pool);

  /// Passes events to `call` from now on; null: idle.
  void serve(std::shared_ptr<ClientCall> call) { call_ = std::move(call); }
  [[nodiscard]] const std::string& base_url() const { return base_url_; }

 private:
  void on_read(std::string_view bytes) override;
  void on_read_failed(bool end, const std::string& why) override;
  void on_sent() override;
  void on_send_failed(const std::string& why) override;
  void on_established() override;
  void on_handshake_failed(const std::string& why) override;
  [[nodiscard]] bool urgent() const override;
  /// Leaves the pool, because something was read while idle, after which the connection cannot be used.
  void leave_pool();

  std::string base_url_;
  std::weak_ptr<ConnectionPool> pool_;
  std::shared_ptr<ClientCall> call_;
};

/// Idle connections per base URL. The last one that was put back is taken first, so that the others reach their maximum
/// age and are closed. Threads: the loop's.
class ConnectionPool : public std::enable_shared_from_this<ConnectionPool> {
 public:
  ConnectionPool(LoopImpl& loop, HttpClientOptions options);

  [[nodiscard]] const HttpClientOptions& options() const { return options_; }
  [[nodiscard]] LoopImpl& loop() { return loop_; }
  /// What is known of the server at a base URL, which is remembered, because a client has few and calls them often.
  [[nodiscard]] Result<std::shared_ptr<const KnownServer>> server_of(const std::string& base_url);
  /// HttpClient::set_server()
  void set_server(const std::string& base_url, ServerSettings settings);
  /// One that was idle for less than `most_idle`; null if there is none.
  [[nodiscard]] std::shared_ptr<ClientConnection> take(const std::string& base_url, Duration most_idle);
  /// Requires: the connection serves no call, and all bytes of its last answer were read.
  void put(std::shared_ptr<ClientConnection> connection);
  void remove(const ClientConnection& connection);
  /// A socket that is being connected, from the next of the source addresses.
  [[nodiscard]] Result<UniqueFd> connect(const Endpoint& endpoint);
  /// Closes all idle connections, and those that are put back later.
  void close();

 private:
  struct Idle {
    std::shared_ptr<ClientConnection> connection;
    TimePoint since;
  };
  /// What https URLs without settings of their own get.
  [[nodiscard]] Result<std::shared_ptr<TlsClient>> usual_tls();
  void sweep_later();
  void sweep();

  LoopImpl& loop_;
  HttpClientOptions options_;
  std::vector<Endpoint> sources_;
  std::size_t next_source_ = 0;
  UniqueFd stamping_;                                        // with stamp_reads: ReceiveStamps::keep_stamping()
  std::unordered_map<std::string, std::vector<Idle>> idle_;  // no empty vectors
  static constexpr std::size_t kMostServers = 8'192;
  std::unordered_map<std::string, std::shared_ptr<const KnownServer>> servers_;
  std::shared_ptr<TlsClient> system_tls_;  // trusts the system's authorities; made when it is needed
  TimerNode sweep_timer_;
  bool sweeping_ = false;
  bool closed_ = false;
};

}  // namespace kvist::net
