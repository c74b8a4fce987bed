#include "kvist/net/tls_session.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/net/receive_stamps.h"
#include "kvist/net/socket.h"

namespace kvist::net {
namespace {

/// What a call may take from the socket beside the data that it is to read: a large record, heads of records, a
/// handshake's messages.
constexpr std::size_t kBudgetBytes = 64U << 10;
/// The records without data that a call takes: some ten microseconds each.
constexpr int kMostIdleRecords = 16;

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

TlsSession::TlsSession(ssl_st* ssl, int socket, std::string name) : ssl_(ssl), socket_(socket), name_(std::move(name)) {
  SSL_set_ex_data(ssl_.get(), 0, this);
  // So that each record without data ends a call, and they can be counted.
  SSL_clear_mode(ssl_.get(), SSL_MODE_AUTO_RETRY);
  BIO* const bio = BIO_new(socket_method());
  KVIST_CHECK(bio != nullptr, "OpenSSL has no memory");
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
}
TlsSession::~TlsSession() = default;

bio_method_st* TlsSession::socket_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "kvist socket");
    KVIST_CHECK(made != nullptr && BIO_meth_set_read(made, &TlsSession::receive) == 1 &&
                    BIO_meth_set_write(made, &TlsSession::send) == 1 &&
                    BIO_meth_set_ctrl(made, &TlsSession::control) == 1,
                "OpenSSL has no memory");
    return made;
  }();
  return method;
}

int TlsSession::receive(BIO* bio, char* data, int size) {
  auto& self = *static_cast<TlsSession*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (self.budget_ == 0) {
    BIO_set_retry_read(bio);
    return -1;
  }
  const std::size_t most = std::min(static_cast<std::size_t>(size), self.budget_);
  const ssize_t bytes =
      self.stamps_ != nullptr ? self.stamps_->receive(self.socket_, data, most) : ::recv(self.socket_, data, most, 0);
  if (bytes > 0) self.budget_ -= static_cast<std::size_t>(bytes);
  if (bytes == 0) self.peer_closed_ = true;
  if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    self.socket_blocks_ = errno != EINTR;
    BIO_set_retry_read(bio);
  }
  return static_cast<int>(bytes);
}

int TlsSession::send(BIO* bio, const char* data, int size) {
  auto& self = *static_cast<TlsSession*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  const ssize_t bytes = ::send(self.socket_, data, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    self.socket_blocks_ = errno != EINTR;
    BIO_set_retry_write(bio);
  }
  return static_cast<int>(bytes);
}

long TlsSession::control(BIO* bio, int command, long /*number*/, void* /*pointer*/) {
  if (command == BIO_CTRL_FLUSH) return 1;
  if (command == BIO_CTRL_EOF) return static_cast<TlsSession*>(BIO_get_data(bio))->peer_closed_ ? 1 : 0;
  return 0;
}

void TlsSession::begin(std::size_t budget) {
  ERR_clear_error();
  errno = 0;
  budget_ = budget;
  socket_blocks_ = false;
}

TlsSession::Progress TlsSession::handshake() {
  begin(kBudgetBytes);
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
  begin(size + kBudgetBytes);
  std::size_t filled = 0;
  int idle_records = 0;
  ssize_t ended = 0;
  while (filled < size) {
    if (broken_ || ended_) {
      errno = EPROTO;
      ended = broken_ ? -1 : 0;
      break;
    }
    const std::size_t room = std::min<std::size_t>(size - filled, std::numeric_limits<int>::max());
    const int result = SSL_read(ssl_.get(), buffer + filled, static_cast<int>(room));
    if (result > 0) {
      filled += static_cast<std::size_t>(result);
      continue;
    }
    ended = outcome(result);
    if (broken_ || ended_ || socket_blocks_ || budget_ == 0 || ++idle_records == kMostIdleRecords) break;
  }
  // What was read before is given first; what ended it is found again by the next call.
  return filled > 0 ? static_cast<ssize_t>(filled) : ended;
}

ssize_t TlsSession::write(const char* data, std::size_t size) {
  begin(kBudgetBytes);
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
  begin(kBudgetBytes);
  (void)SSL_shutdown(ssl_.get());
}

ssize_t TlsSession::outcome(int result) {
  const int number = errno;
  const int error = SSL_get_error(ssl_.get(), result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
    errno = EAGAIN;
    return -1;
  }
  if (error == SSL_ERROR_ZERO_RETURN) {
    ended_ = true;
    return 0;
  }
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
