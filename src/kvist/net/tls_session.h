// Private to net: TLS on one socket.
#pragma once

#include <sys/types.h>
#include <cstddef>
#include <memory>
#include <string>

struct bio_method_st;
struct bio_st;
struct ssl_st;
struct x509_store_ctx_st;

namespace kvist::net {

class ReceiveStamps;

/// Reads from and writes to a non-blocking socket as recv() and send() do, through TLS. What a call takes from the
/// socket is bounded, and so is the number of records without data (of which a peer may send any number: TLS 1.3's
/// KeyUpdate costs it little), so that no peer keeps the loop busy. Threads: the loop's.
class TlsSession {
 public:
  /// Takes `ssl` over, which has no socket yet. `name` is what the peer's certificate has to be for, for messages;
  /// empty: any. Requires: `socket` stays open as long as this object is used.
  TlsSession(ssl_st* ssl, int socket, std::string name);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  enum class Progress {
    kDone,
    kBlocked,  // the socket has nothing to read, or takes nothing; or see may_go_on()
    kFailed,   // problem() says why
  };
  [[nodiscard]] Progress handshake();
  [[nodiscard]] bool established() const { return established_; }

  /// The number of bytes; 0 when the peer has ended the stream in order; -1 with EAGAIN in errno when there are none
  /// now, with EPROTO when the connection is broken. An end that comes behind bytes is told by the next call. Requires:
  /// established().
  [[nodiscard]] ssize_t read(char* buffer, std::size_t size);
  /// The same for bytes that the socket took. Requires: what it did not take is at the front of the next call.
  [[nodiscard]] ssize_t write(const char* data, std::size_t size);
  /// Tells the peer that nothing more will come, if the socket takes that now.
  void end();
  /// Whether a further call could do more than the last one did, without anything happening to the socket before: it
  /// ended because it had done enough, or has something to tell.
  [[nodiscard]] bool may_go_on() const { return !socket_blocks_; }

  /// Reads from the socket go through `stamps`, which must outlive this object; null: they do not.
  void stamp_reads(ReceiveStamps* stamps) { stamps_ = stamps; }

  /// OpenSSL's callback for each certificate of the peer's chain: notes what is wrong with it.
  static int on_verified(int good, x509_store_ctx_st* chain);

  /// Why it failed, in words for people.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  struct Free {
    void operator()(ssl_st* ssl) const;
  };
  /// A call begins, which may take so many bytes from the socket.
  void begin(std::size_t budget);
  /// What OpenSSL reads from and writes to, in place of its own socket: with a budget, and without SIGPIPE.
  static bio_method_st* socket_method();
  static int receive(bio_st* bio, char* data, int size);
  static int send(bio_st* bio, const char* data, int size);
  static long control(bio_st* bio, int command, long number, void* pointer);

  /// What follows from a call's result: sets errno, and problem_ if it failed.
  ssize_t outcome(int result);
  void explain(int error);
  [[nodiscard]] std::string explain_certificate(x509_store_ctx_st* chain) const;

  std::unique_ptr<ssl_st, Free> ssl_;
  int socket_;
  ReceiveStamps* stamps_ = nullptr;
  std::string name_;
  std::string problem_;
  std::string certificate_problem_;  // of the peer's certificate
  std::size_t budget_ = 0;           // bytes that the present call may still take from the socket
  bool socket_blocks_ = false;       // the last call ended because the socket had nothing or took nothing
  bool peer_closed_ = false;         // the socket's stream has ended
  bool established_ = false;
  bool ended_ = false;  // by the peer, in order
  bool broken_ = false;
};

}  // namespace kvist::net
