// Private to net: TLS on one socket.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>

struct ssl_st;
struct x509_store_ctx_st;

namespace kvist::net {

/// Reads from and writes to a non-blocking socket as recv() and send() do, through TLS. Threads: the loop's.
class TlsSession {
 public:
  /// Takes `ssl` over. `name` is what the peer's certificate has to be for, for messages; empty: any.
  TlsSession(ssl_st* ssl, std::string name);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  enum class Progress {
    kDone,
    kBlocked,  // the socket has nothing to read, or takes nothing
    kFailed,   // problem() says why
  };
  [[nodiscard]] Progress handshake();
  [[nodiscard]] bool established() const { return established_; }

  /// The number of bytes; 0 when the peer has ended the stream in order; -1 with EAGAIN in errno when there are none
  /// now, with EPROTO when the connection is broken. Ensures: after less than `size` bytes the socket was empty, or
  /// nothing more will come. Requires: established().
  [[nodiscard]] ssize_t read(char* buffer, std::size_t size);
  /// The same for bytes that the socket took. Requires: what it did not take is at the front of the next call.
  [[nodiscard]] ssize_t write(const char* data, std::size_t size);
  /// Tells the peer that nothing more will come, if the socket takes that now.
  void end();

  /// OpenSSL's callback for each certificate of the peer's chain: notes what is wrong with it.
  static int on_verified(int good, x509_store_ctx_st* chain);

  /// Why it failed, in words for people.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  struct Free {
    void operator()(ssl_st* ssl) const;
  };
  /// What follows from a call's result: sets errno, and problem_ if it failed.
  ssize_t outcome(int result);
  void explain(int error);
  [[nodiscard]] std::string explain_certificate(x509_store_ctx_st* chain) const;

  std::unique_ptr<ssl_st, Free> ssl_;
  std::string name_;
  std::string problem_;
  std::string certificate_problem_;  // of the peer's certificate
  bool established_ = false;
  bool broken_ = false;
};

}  // namespace kvist::net
