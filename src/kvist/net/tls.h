// TLS: certificates of servers and clients. Hides OpenSSL.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/net/http_types.h"

struct ssl_ctx_st;

namespace kvist::net {

class TlsSession;

enum class ClientCertificates {
  kNone,
  kOptional,  ///< one that is shown has to be good
  kRequired,
};

struct TlsServerOptions {
  std::string certificate;     ///< PEM file: the certificate and those between it and its authority
  std::string key;             ///< PEM file
  std::string client_ca = {};  ///< PEM file of the authorities that vouch for clients
  ClientCertificates client_certificates = ClientCertificates::kNone;
};

/// The certificate of a server. TLS 1.2 and 1.3, HTTP/1.1. Threads: any.
class TlsServer {
 public:
  /// Errors name the file and what is wrong with it.
  [[nodiscard]] static Result<std::shared_ptr<TlsServer>> load(TlsServerOptions options);
  /// Reads the files again. New connections get the new certificate; others go on. After an error all stays as it is.
  [[nodiscard]] Result<void> reload();

  [[nodiscard]] const TlsServerOptions& options() const { return options_; }
  /// Handshakes that failed, for whatever reason.
  [[nodiscard]] std::uint64_t failed_handshakes() const { return failed_.load(std::memory_order_relaxed); }
  void count_failed_handshake() { failed_.fetch_add(1, std::memory_order_relaxed); }

  /// The server's side of a connection on this socket.
  [[nodiscard]] std::unique_ptr<TlsSession> accept(int socket) const;

 private:
  explicit TlsServer(TlsServerOptions options) : options_(std::move(options)) {}

  const TlsServerOptions options_;
  std::atomic<std::shared_ptr<ssl_ctx_st>> context_;
  std::atomic<std::uint64_t> failed_ = 0;
};

struct TlsClientOptions {
  std::string ca = {};           ///< PEM file of the authorities to trust; empty: the system's
  std::string server_name = {};  ///< that the server's certificate has to be for; empty: the URL's host
  std::string certificate = {};  ///< PEM file of an own certificate; empty: none is shown
  std::string key = {};          ///< PEM file
  /// False: any certificate is taken, for anyone. Who is in between reads and changes everything.
  bool verify = true;
};

/// Whom a client trusts, and what it shows. Threads: any.
class TlsClient {
 public:
  [[nodiscard]] static Result<std::shared_ptr<TlsClient>> load(TlsClientOptions options);
  /// The client's side of a connection on this socket. `host` is the URL's. Null if no certificate can be for that.
  [[nodiscard]] std::unique_ptr<TlsSession> connect(int socket, const std::string& host) const;

 private:
  explicit TlsClient(TlsClientOptions options) : options_(std::move(options)) {}

  const TlsClientOptions options_;
  std::shared_ptr<ssl_ctx_st> context_;
};

/// A blocking call as fetch_blocking() makes it (http_client.h), to an https URL.
[[nodiscard]] Result<HttpResponse> fetch_blocking(const std::string& method, const std::string& url, std::string body,
                                                  Duration timeout, Headers headers, std::shared_ptr<TlsClient> tls);

}  // namespace kvist::net
