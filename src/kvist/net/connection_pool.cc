#include "kvist/net/connection_pool.h"

#include <algorithm>
#include <utility>

#include "kvist/net/client_call.h"
#include "kvist/net/tls.h"
#include "kvist/net/tls_session.h"

namespace kvist::net {

ClientConnection::ClientConnection(LoopImpl& loop, UniqueFd socket, std::unique_ptr<TlsSession> tls,
                                   std::string base_url, std::weak_ptr<ConnectionPool> pool)
    : TcpConnection(loop, std::move(socket), std::move(tls)), base_url_(std::move(base_url)), pool_(std::move(pool)) {}

void ClientConnection::on_read(std::string_view bytes) {
  // A copy, because the call releases this connection at its end.
  if (const auto call = call_) return call->on_bytes(bytes);
  leave_pool();
}

void ClientConnection::on_read_failed(bool end, const std::string& why) {
  if (const auto call = call_) return call->on_lost(end, why);
  leave_pool();
}

void ClientConnection::on_sent() {
  if (const auto call = call_) call->on_request_progress();
}

void ClientConnection::on_send_failed(const std::string& why) {
  if (const auto call = call_) return call->on_send_failed(why);
  leave_pool();
}

void ClientConnection::on_established() {
  if (const auto call = call_) call->on_established();
}

void ClientConnection::on_handshake_failed(const std::string& why) {
  if (const auto call = call_) return call->on_handshake_failed(why);
  leave_pool();
}

// Urgent while the call waits for its answer; after that come chunks of a stream.
bool ClientConnection::urgent() const {
  return call_ == nullptr || !call_->answered();
}

void ClientConnection::leave_pool() {
  close();
  if (const auto pool = pool_.lock()) pool->remove(*this);
}

ConnectionPool::ConnectionPool(LoopImpl& loop, HttpClientOptions options)
    : loop_(loop), options_(options), sweep_timer_(loop.timers()) {
  if (options_.stamp_reads) {
    stamping_ = ReceiveStamps::keep_stamping();
    loop_.watch_wakeups();
  }
  for (const std::string& address : options_.source_addresses) {
    if (const std::optional<Endpoint> source = numeric_endpoint(address, 0)) sources_.push_back(*source);
  }
}

Result<UniqueFd> ConnectionPool::connect(const Endpoint& endpoint) {
  for (std::size_t tried = 0; tried < sources_.size(); ++tried) {
    const Endpoint& source = sources_[next_source_];
    next_source_ = (next_source_ + 1) % sources_.size();
    if (source.get()->sa_family == endpoint.get()->sa_family) return start_connect(endpoint, source);
  }
  return start_connect(endpoint);
}

Result<std::shared_ptr<const KnownServer>> ConnectionPool::server_of(const std::string& base_url) {
  if (const auto found = servers_.find(base_url); found != servers_.end()) return found->second;
  KnownServer server;
  KVIST_TRY(server.url, parse_http_url(base_url));
  if (const auto settings = options_.servers.find(base_url); settings != options_.servers.end()) {
    const std::string& key = settings->second.bearer_key;
    if (!key.empty()) server.fields = "Authorization: Bearer " + key + "\r\n";
    server.tls = settings->second.tls;
  }
  if (server.url.tls && !server.tls) {
    KVIST_TRY(server.tls, usual_tls());
  }
  if (!server.url.tls) server.tls = nullptr;
  auto known = std::make_shared<const KnownServer>(std::move(server));
  if (servers_.size() < kMostServers) servers_.emplace(base_url, known);
  return known;
}

void ConnectionPool::set_server(const std::string& base_url, ServerSettings settings) {
  if (settings.bearer_key.empty() && !settings.tls) {
    options_.servers.erase(base_url);
  } else {
    options_.servers.insert_or_assign(base_url, std::move(settings));
  }
  servers_.erase(base_url);
  const auto found = idle_.find(base_url);
  if (found == idle_.end()) return;
  const std::vector<Idle> connections = std::move(found->second);
  idle_.erase(found);
  for (const Idle& idle : connections) idle.connection->close();
}

Result<std::shared_ptr<TlsClient>> ConnectionPool::usual_tls() {
  if (options_.tls) return options_.tls;
  if (!system_tls_) {
    KVIST_TRY(system_tls_, TlsClient::load({}));
  }
  return system_tls_;
}

std::shared_ptr<ClientConnection> ConnectionPool::take(const std::string& base_url, Duration most_idle) {
  const auto found = idle_.find(base_url);
  if (found == idle_.end()) return nullptr;
  auto& connections = found->second;
  if (most_idle < options_.idle_timeout && now() - connections.back().since >= most_idle) return nullptr;
  const Idle newest = std::move(connections.back());
  connections.pop_back();
  if (now() - newest.since >= options_.idle_timeout) {
    // If the newest is too old, so are the others.
    newest.connection->close();
    for (const Idle& idle : connections) idle.connection->close();
    idle_.erase(found);
    return nullptr;
  }
  if (connections.empty()) idle_.erase(found);
  return newest.connection;
}

void ConnectionPool::put(std::shared_ptr<ClientConnection> connection) {
  auto& connections = idle_[connection->base_url()];
  if (closed_ || connections.size() >= options_.max_idle_per_host) {
    if (connections.empty()) idle_.erase(connection->base_url());
    connection->close();
    return;
  }
  connection->start_read();
  connections.push_back({std::move(connection), now()});
  if (!std::exchange(sweeping_, true)) sweep_later();
}

void ConnectionPool::remove(const ClientConnection& connection) {
  const auto found = idle_.find(connection.base_url());
  if (found == idle_.end()) return;
  std::erase_if(found->second, [&](const Idle& idle) { return idle.connection.get() == &connection; });
  if (found->second.empty()) idle_.erase(found);
}

void ConnectionPool::close() {
  closed_ = true;
  sweep_timer_.cancel();
  for (const auto& [base_url, connections] : idle_) {
    for (const Idle& idle : connections) idle.connection->close();
  }
  idle_.clear();
}

void ConnectionPool::sweep_later() {
  sweep_timer_.arm(now() + std::max<Duration>(options_.idle_timeout / 2, std::chrono::milliseconds(10)),
                   [weak = weak_from_this()] {
                     if (const auto self = weak.lock()) self->sweep();
                   });
}

void ConnectionPool::sweep() {
  const TimePoint at = now();
  for (auto host = idle_.begin(); host != idle_.end();) {
    std::erase_if(host->second, [&](const Idle& idle) {
      if (at - idle.since < options_.idle_timeout) return false;
      idle.connection->close();
      return true;
    });
    host = host->second.empty() ? idle_.erase(host) : std::next(host);
  }
  sweeping_ = !idle_.empty();
  if (sweeping_) sweep_later();
}

}  // namespace kvist::net
