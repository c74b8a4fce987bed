// Private to net: one HTTP call, from connecting to the end of the answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/net/body_decoder.h"
#include "kvist/net/connection_pool.h"
#include "kvist/net/http_client.h"
#include "kvist/net/http_head.h"
#include "kvist/net/loop_impl.h"
#include "kvist/net/pending_connect.h"
#include "kvist/net/url.h"

namespace kvist::net {

/// Takes a pooled connection or makes one, sends the request, and passes on the answer. Kept alive by its HttpCall and
/// by outstanding operations. Invariant: after finished_ no handler is called. Threads: the loop's.
class ClientCall : public std::enable_shared_from_this<ClientCall> {
 public:
  ClientCall(std::shared_ptr<ConnectionPool> pool, std::string base_url, std::shared_ptr<const HttpRequest> request,
             Duration timeout, CallHandlers handlers);

  ~ClientCall();

  /// Starts the call. Requires: it is called once. Ensures: no handler is called before this returns.
  void start();
  void cancel();
  void pause() { paused_ = true; }
  void resume();
  /// HttpCall::piece_age(), longest_send()
  [[nodiscard]] PieceAge piece_age(HttpCall::Bytes which);
  [[nodiscard]] Duration longest_send() const { return longest_send_; }
  /// Whether a part of the answer has arrived.
  [[nodiscard]] bool answered() const { return answered_; }

  // Called by the connection.
  void on_bytes(std::string_view bytes);
  void on_lost(bool end, const std::string& why);
  void on_request_progress();
  void on_send_failed(const std::string& why);
  void on_established();
  void on_handshake_failed(const std::string& why);

 private:
  [[nodiscard]] Result<void> prepare();
  void begin();
  void connect();
  void note_connect_error(Error error);
  void connect_next();
  void on_connected(UniqueFd socket);
  void attach(std::shared_ptr<ClientConnection> connection);
  void arm(TimePoint when);
  void on_timeout();

  void deliver(std::string_view input, TimePoint at);
  [[nodiscard]] bool take_head(std::string_view& input);
  [[nodiscard]] bool take_body(std::string_view& input, TimePoint at);

  void fail(ErrorCode code, std::string message);
  void finish(bool reusable);
  void stop();
  void release();
  /// Calls a handler. The handlers are kept until the outermost call of one has returned, because it may end this call.
  template <class Handler, class... Arguments>
  void invoke(const Handler& handler, Arguments&&... arguments);

  std::shared_ptr<ConnectionPool> pool_;
  std::string base_url_;
  std::shared_ptr<const HttpRequest> request_;  // null when it will not be sent again
  Duration timeout_;
  CallHandlers handlers_;
  std::shared_ptr<const KnownServer> server_;
  const HttpUrl* url_ = nullptr;  // of server_
  std::string head_;              // of the request, as sent
  CallTimes times_;
  Duration longest_send_{};           // of the write that took the request's last byte
  TimePoint read_at_;                 // of the bytes that are being delivered
  std::size_t behind_piece_ = 0;      // bytes of that read behind the piece that on_body is being given
  std::optional<bool> one_packet_{};  // whether the read was of one packet; nothing: not asked yet
  TimePoint deadline_;
  TimePoint connect_deadline_;

  std::vector<Endpoint> endpoints_;
  std::size_t next_endpoint_ = 0;
  Error connect_error_;  // of the addresses tried
  std::unique_ptr<PendingConnect> connecting_;
  TimerNode timer_;
  std::shared_ptr<ClientConnection> connection_;

  ResponseHeadParser head_parser_;
  std::optional<BodyDecoder> body_;  // set when the head was read
  std::string waiting_;              // bytes that were read but not delivered: a part of a head, or while paused
  int interim_answers_ = 0;          // 1xx, before the answer
  bool head_request_ = false;
  bool keep_alive_ = false;
  bool request_sent_ = false;
  bool reused_ = false;  // the connection had served another call before
  bool answered_ = false;
  bool paused_ = false;
  bool finished_ = false;
  int depth_ = 0;  // number of nested handler calls
};

}  // namespace kvist::net
