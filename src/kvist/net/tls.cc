#include "kvist/net/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/net/tls_session.h"

namespace kvist::net {
namespace {

using Context = std::shared_ptr<SSL_CTX>;

constexpr unsigned char kHttp11[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

/// The first thing that OpenSSL has to say about a failure.
std::string openssl_problem() {
  const unsigned long error = ERR_peek_error();
  const char* const text = ERR_reason_error_string(error);
  ERR_clear_error();
  return text == nullptr ? "OpenSSL gives no reason" : text;
}

std::unexpected<Error> bad_file(const std::string& file, const std::string& what) {
  std::error_code missing;
  if (!std::filesystem::exists(file, missing)) return fail(ErrorCode::kNotFound, file + ": no such file");
  return fail(ErrorCode::kInvalidArgument, file + ": " + what + ": " + openssl_problem());
}

Result<Context> make_context(const SSL_METHOD* method) {
  ERR_clear_error();
  const Context context(SSL_CTX_new(method), &SSL_CTX_free);
  if (!context || SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_cipher_list(context.get(), "ECDHE+AESGCM:ECDHE+CHACHA20") != 1) {
    return fail(ErrorCode::kInternal, "OpenSSL cannot be set up: " + openssl_problem());
  }
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  return context;
}

/// A prompt for a password would stop the service.
int no_password(char*, int, int, void*) {
  return 0;
}

Result<void> use_certificate(SSL_CTX* context, const std::string& certificate, const std::string& key) {
  SSL_CTX_set_default_passwd_cb(context, no_password);
  if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1)
    return bad_file(certificate, "no certificate in PEM form");
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1)
    return bad_file(key, "no key in PEM form without a password, or not that of " + certificate);
  if (SSL_CTX_check_private_key(context) != 1) return bad_file(key, "not the key of " + certificate);
  return {};
}

int choose_http11(SSL*, const unsigned char** chosen, unsigned char* length, const unsigned char* offered,
                  unsigned int offered_length, void*) {
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, length, kHttp11, sizeof(kHttp11), offered, offered_length) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

Result<Context> server_context(const TlsServerOptions& options) {
  KVIST_TRY(Context context, make_context(TLS_server_method()));
  KVIST_TRY_VOID(use_certificate(context.get(), options.certificate, options.key));
  SSL_CTX_set_alpn_select_cb(context.get(), choose_http11, nullptr);
  SSL_CTX_set_num_tickets(context.get(), 1);
  constexpr std::string_view kSessions = "kvist";
  SSL_CTX_set_session_id_context(context.get(), reinterpret_cast<const unsigned char*>(kSessions.data()),
                                 kSessions.size());
  if (options.client_certificates == ClientCertificates::kNone) return context;
  if (SSL_CTX_load_verify_locations(context.get(), options.client_ca.c_str(), nullptr) != 1)
    return bad_file(options.client_ca, "no certificates in PEM form");
  SSL_CTX_set_client_CA_list(context.get(), SSL_load_client_CA_file(options.client_ca.c_str()));
  const int required =
      options.client_certificates == ClientCertificates::kRequired ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0;
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | required, &TlsSession::on_verified);
  return context;
}

bool is_address(const std::string& host) {
  in6_addr parsed{};
  return ::inet_pton(AF_INET, host.c_str(), &parsed) == 1 || ::inet_pton(AF_INET6, host.c_str(), &parsed) == 1;
}

/// SSL_set_tlsext_host_name(), without the C cast of that macro.
bool set_server_name(SSL* ssl, std::string name) {
  return SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name.data()) == 1;
}

}  // namespace

Result<std::shared_ptr<TlsServer>> TlsServer::load(TlsServerOptions options) {
  std::shared_ptr<TlsServer> server(new TlsServer(std::move(options)));
  KVIST_TRY_VOID(server->reload());
  return server;
}

Result<void> TlsServer::reload() {
  KVIST_TRY(Context context, server_context(options_));
  context_.store(std::move(context));
  return {};
}

std::unique_ptr<TlsSession> TlsServer::accept(int socket) const {
  const Context context = context_.load();
  SSL* const ssl = SSL_new(context.get());  // shares the context
  KVIST_CHECK(ssl != nullptr, "OpenSSL has no memory");
  SSL_set_accept_state(ssl);
  return std::make_unique<TlsSession>(ssl, socket, "");
}

Result<std::shared_ptr<TlsClient>> TlsClient::load(TlsClientOptions options) {
  std::shared_ptr<TlsClient> client(new TlsClient(std::move(options)));
  const TlsClientOptions& wanted = client->options_;
  KVIST_TRY(Context context, make_context(TLS_client_method()));
  if (!wanted.verify) {
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  } else if (wanted.ca.empty()) {
    SSL_CTX_set_default_verify_paths(context.get());
  } else if (SSL_CTX_load_verify_locations(context.get(), wanted.ca.c_str(), nullptr) != 1) {
    return bad_file(wanted.ca, "no certificates in PEM form");
  }
  if (!wanted.certificate.empty()) {
    KVIST_TRY_VOID(use_certificate(context.get(), wanted.certificate, wanted.key));
  }
  if (wanted.verify) SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, &TlsSession::on_verified);
  SSL_CTX_set_alpn_protos(context.get(), kHttp11, sizeof(kHttp11));
  client->context_ = std::move(context);
  return client;
}

std::unique_ptr<TlsSession> TlsClient::connect(int socket, const std::string& host) const {
  const std::string& name = options_.server_name.empty() ? host : options_.server_name;
  SSL* const ssl = SSL_new(context_.get());
  KVIST_CHECK(ssl != nullptr, "OpenSSL has no memory");
  SSL_set_connect_state(ssl);
  X509_VERIFY_PARAM* const checks = SSL_get0_param(ssl);
  bool named = false;
  if (is_address(name)) {
    named = X509_VERIFY_PARAM_set1_ip_asc(checks, name.c_str()) == 1;
  } else {
    X509_VERIFY_PARAM_set_hostflags(checks, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    named = X509_VERIFY_PARAM_set1_host(checks, name.c_str(), name.size()) == 1 && set_server_name(ssl, name);
  }
  if (!named) {
    SSL_free(ssl);
    return nullptr;
  }
  return std::make_unique<TlsSession>(ssl, socket, name);
}

}  // namespace kvist::net
