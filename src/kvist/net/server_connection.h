// Private to net: the server's side of a connection.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/net/body_budget.h"
#include "kvist/net/body_decoder.h"
#include "kvist/net/body_decompressor.h"
#include "kvist/net/content_decoder.h"
#include "kvist/net/http_head.h"
#include "kvist/net/http_server.h"
#include "kvist/net/idle_connections.h"
#include "kvist/net/reader_watch.h"
#include "kvist/net/tcp_connection.h"

namespace kvist::net {

class ServerCore;
class ServerExchange;

/// Reads requests one at a time and passes them to the server's handler. While an answer is under way it keeps reading,
/// to notice when the client leaves; bytes of the next request that arrive meanwhile are kept, within a bound. Threads:
/// the loop's.
class ServerConnection final : public TcpConnection, public IdleLink {
 public:
  /// `address` is the peer's, for the bound by address. `reserved`: it is beyond the bound of connections and takes one
  /// request, of a kind that is always served.
  ServerConnection(LoopImpl& loop, UniqueFd socket, std::shared_ptr<ServerCore> core, std::uint64_t address,
                   bool reserved, std::unique_ptr<TlsSession> tls);

  void begin();
  /// Called regularly. Acts if the present state has lasted too long.
  void check_deadline(TimePoint now);
  /// The server closes: an idle connection is closed now, a busy one after its answer.
  void close_when_idle();
  /// Closes the connection now, without calling the service.
  void drop();
  /// Keeps the pointer until nothing that was written waits for the socket.
  void hold_until_sent(std::shared_ptr<void> held);

  /// Whether it has no whole request yet.
  [[nodiscard]] bool awaits_request() const { return state_ == State::kHead || state_ == State::kBody; }
  /// Whether nothing of a request has come, not even into the system's buffer. Requires: it is among the idle ones.
  [[nodiscard]] bool may_make_room() const { return !has_unread_bytes(); }
  /// Whether it only waits for the client to close it.
  [[nodiscard]] bool has_answered() const { return state_ == State::kLingering; }

  // Called by the exchange under way.
  [[nodiscard]] bool answer(std::initializer_list<std::string_view> pieces);
  void answer_complete();
  void break_off();
  /// Whether the connection is closed after this answer, which its head has to announce.
  [[nodiscard]] bool ends_after_answer() const;
  void end_after_answer() { ends_after_answer_ = true; }
  /// The exchange has switched to another protocol: what comes goes to it.
  void upgraded();
  void forget_exchange() { exchange_ = nullptr; }
  [[nodiscard]] bool http11() const { return http11_; }
  [[nodiscard]] bool answers_head_request() const { return head_request_; }
  /// Lines for the head of the answer under way.
  [[nodiscard]] const std::string& answer_fields() const { return answer_fields_; }
  using TcpConnection::loop;

 private:
  enum class State {
    kHead,       // waiting for or reading a head
    kBody,       // reading a body
    kDecoding,   // another thread decompresses the body
    kAnswering,  // the handler has the request
    kUpgraded,   // the connection is the exchange's, which speaks another protocol
    kFlushing,   // the answer is complete, but not all sent
    kLingering,  // everything is sent and the sending side is closed; reading continues so that the client gets the
                 // answer before a reset
  };

  void on_read(std::string_view bytes) override;
  void on_read_failed(bool end, const std::string& why) override;
  void on_hung_up() override;
  void on_sent() override;
  void on_blocked() override;
  void on_established() override;
  void on_handshake_failed(const std::string& why) override;
  void on_send_failed(const std::string& why) override;

  void process(std::string_view input);
  void process_waiting();
  /// Reads on, unless too much waits to be processed.
  void read_on();
  void give_to_exchange(std::string_view bytes);
  [[nodiscard]] bool take_head(std::string_view& input);
  [[nodiscard]] bool take_body(std::string_view& input);
  void begin_body(const RequestHead& head, bool body_has_begun);
  /// False: it was refused, as it is none that is known here.
  [[nodiscard]] bool read_coding();
  /// Decompresses the body that has arrived, here or, if it is large, on another thread.
  void decode();
  void decode_on_thread(ContentDecoder decoder);
  void on_decoded(Result<std::string> body);
  void dispatch();
  /// The answer to a request that is not the service's: on a reserved connection, or of a web page.
  [[nodiscard]] std::optional<HttpResponse> own_answer();
  /// Answers a request that cannot be served, and ends the connection.
  void refuse(int status, std::string_view message);
  void end_with(HttpResponse answer);
  void next_request();
  /// It has nothing of a request, so that it makes room for others. A reserved one has a bound of its own.
  void become_idle();
  /// It is closed: it no longer counts for any bound.
  void leave_server();
  void linger();
  /// The client has left or the connection is given up. `soon`: the exchange is informed later, from the loop.
  void lost(bool soon);
  [[nodiscard]] TimePoint idle_deadline() const;

  static constexpr std::size_t kMaxWaitingBytes = 64U << 10;
  static constexpr TimePoint kNever = TimePoint::max();

  std::shared_ptr<ServerCore> core_;
  const std::uint64_t address_;
  const bool reserved_;
  ServerExchange* exchange_ = nullptr;  // the one under way, which the service owns
  RequestHeadParser head_parser_;
  BodyDecoder body_decoder_ = BodyDecoder::empty();
  HttpRequest request_;
  BodyShare body_share_;                              // of the request under way
  std::optional<ContentCoding> coding_;               // of the body under way
  std::optional<BodyDecompressor::Ticket> decoding_;  // another thread has the body
  std::string answer_fields_;
  std::string waiting_;  // bytes read but not processed yet
  State state_ = State::kHead;
  TimePoint deadline_ = kNever;
  std::uint64_t lingered_bytes_ = 0;
  ReaderWatch reader_;  // while an answer waits for the socket
  std::vector<std::shared_ptr<void>> held_until_sent_;
  bool request_begun_ = false;  // some byte of the next request has come
  bool processing_ = false;
  bool ends_after_answer_ = false;
  bool http11_ = true;
  bool head_request_ = false;
};

}  // namespace kvist::net
