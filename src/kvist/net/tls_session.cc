#include "kvist/net/tls_session.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "kvist/net/socket.h"

namespace kvist::net {
namespace {

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};

std::string time_text(const ASN1_TIME* time) {
  const std::unique_ptr<BIO, FreeBio> bio(BIO_new(BIO_s_mem()));
  if (time == nullptr || ASN1_TIME_print(bio.get(), time) != 1) return "an unknown time";
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

/// The names that a certificate is for, at most a few.
std::string names_of(const X509* certificate) {
  constexpr int kMost = 8;
  std::string names;
  auto* const list = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; list != nullptr && i < std::min(sk_GENERAL_NAME_num(list), kMost); ++i) {
    const GENERAL_NAME* const entry = sk_GENERAL_NAME_value(list, i);
    std::string name;
    if (entry->type == GEN_DNS) {
      name.assign(reinterpret_cast<const char*>(ASN1_STRING_get0_data(entry->d.dNSName)),
                  static_cast<std::size_t>(ASN1_STRING_length(entry->d.dNSName)));
    } else if (entry->type == GEN_IPADD) {
      const unsigned char* const bytes = ASN1_STRING_get0_data(entry->d.iPAddress);
      if (ASN1_STRING_length(entry->d.iPAddress) != 4) continue;
      for (int b = 0; b < 4; ++b) name += (b == 0 ? "" : ".") + std::to_string(bytes[b]);
    } else {
      continue;
    }
    names += (names.empty() ? "" : ", ") + name;
  }
  GENERAL_NAMES_free(list);
  return names.empty() ? "no name at all" : names;
}

}  // namespace

void TlsSession::Free::operator()(ssl_st* ssl) const {
  SSL_free(ssl);
}

TlsSession::TlsSession(ssl_st* ssl, std::string name) : ssl_(ssl), name_(std::move(name)) {
  SSL_set_ex_data(ssl_.get(), 0, this);
}
TlsSession::~TlsSession() = default;

TlsSession::Progress TlsSession::handshake() {
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  if (result == 1) {
    established_ = true;
    return Progress::kDone;
  }
  if (outcome(result) == 0) {
    problem_ = "the peer ended the TLS handshake";
    return Progress::kFailed;
  }
  return broken_ ? Progress::kFailed : Progress::kBlocked;
}

ssize_t TlsSession::read(char* buffer, std::size_t size) {
  std::size_t filled = 0;
  while (filled < size) {
    ERR_clear_error();
    const std::size_t room = std::min<std::size_t>(size - filled, std::numeric_limits<int>::max());
    const int result = SSL_read(ssl_.get(), buffer + filled, static_cast<int>(room));
    if (result <= 0) {
      // What was read before is given first; whatever ended it is found again by the next call.
      const ssize_t ended = outcome(result);
      return filled > 0 ? static_cast<ssize_t>(filled) : ended;
    }
    filled += static_cast<std::size_t>(result);
  }
  return static_cast<ssize_t>(filled);
}

ssize_t TlsSession::write(const char* data, std::size_t size) {
  ERR_clear_error();
  const std::size_t most = std::min<std::size_t>(size, std::numeric_limits<int>::max());
  const int result = SSL_write(ssl_.get(), data, static_cast<int>(most));
  if (result > 0) return result;
  const ssize_t ended = outcome(result);
  if (ended < 0) return ended;
  // OpenSSL says so of a write that failed after the peer's farewell. Nothing can be sent any more.
  if (problem_.empty()) problem_ = "the peer has ended the connection";
  broken_ = true;
  errno = EPROTO;
  return -1;
}

void TlsSession::end() {
  if (!established_ || broken_) return;
  ERR_clear_error();
  (void)SSL_shutdown(ssl_.get());
}

ssize_t TlsSession::outcome(int result) {
  const int number = errno;
  const int error = SSL_get_error(ssl_.get(), result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
    errno = EAGAIN;
    return -1;
  }
  if (error == SSL_ERROR_ZERO_RETURN) return 0;
  if (!broken_) {
    errno = number;
    explain(error);
  }
  broken_ = true;
  errno = EPROTO;
  return -1;
}

void TlsSession::explain(int error) {
  const int number = errno;
  const unsigned long first = ERR_peek_error();
  if (!certificate_problem_.empty()) {
    problem_ = certificate_problem_;
  } else if (error == SSL_ERROR_SYSCALL && first == 0) {
    const bool ended = number == 0;
    problem_ = ended ? (established_ ? "the connection ended without TLS's farewell"
                                     : "the peer closed the connection during the TLS handshake")
                     : error_text(number);
  } else if (ERR_GET_REASON(first) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
    problem_ = established_ ? "the connection ended without TLS's farewell"
                            : "the peer closed the connection during the TLS handshake";
  } else if (const int reason = ERR_GET_REASON(first); reason == SSL_R_WRONG_VERSION_NUMBER ||
                                                       reason == SSL_R_HTTP_REQUEST ||
                                                       reason == SSL_R_PACKET_LENGTH_TOO_LONG) {
    problem_ = "the peer speaks no TLS";
  } else {
    const char* const text = ERR_reason_error_string(first);
    problem_ = text != nullptr ? text : "TLS failed";
  }
  ERR_clear_error();
}

int TlsSession::on_verified(int good, X509_STORE_CTX* chain) {
  if (good == 1) return 1;
  const auto* const ssl =
      static_cast<const SSL*>(X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* const self = static_cast<TlsSession*>(SSL_get_ex_data(ssl, 0));
  self->certificate_problem_ = self->explain_certificate(chain);
  return 0;
}

std::string TlsSession::explain_certificate(X509_STORE_CTX* chain) const {
  const int why = X509_STORE_CTX_get_error(chain);
  const std::string text = X509_verify_cert_error_string(why);
  const X509* const wrong = X509_STORE_CTX_get_current_cert(chain);
  const std::string which = X509_STORE_CTX_get_error_depth(chain) == 0 ? "the peer's certificate"
                                                                       : "one in the chain of the peer's certificate";
  switch (why) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return which + " has expired: it was good until " +
             time_text(wrong == nullptr ? nullptr : X509_get0_notAfter(wrong));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return which + " is not good before " + time_text(wrong == nullptr ? nullptr : X509_get0_notBefore(wrong));
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return "the peer's certificate is not for " + name_ + " but for " + names_of(X509_STORE_CTX_get0_cert(chain));
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return "the peer's certificate is of an authority that is not trusted here (" + text + ")";
    default:
      return which + " is refused: " + text;
  }
}

}  // namespace kvist::net
