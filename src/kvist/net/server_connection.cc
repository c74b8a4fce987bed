#include "kvist/net/server_connection.h"

#include <algorithm>
#include <utility>

#include "kvist/net/connections_by_address.h"
#include "kvist/net/server_core.h"
#include "kvist/net/server_exchange.h"
#include "kvist/net/tls.h"
#include "kvist/net/tls_session.h"

namespace kvist::net {

namespace {

// How long, and how many bytes, a refused client may still send before the connection is closed.
constexpr Duration kLingerTime = std::chrono::seconds(2);
constexpr std::uint64_t kMaxLingerBytes = 64ULL << 20;
// Up to this announced size, memory for a body is reserved at once; for a larger one it is allocated as the body
// arrives.
constexpr std::uint64_t kReservedBodyBytes = 256U << 10;

// Of a compressed body so much is decompressed at once, which takes a millisecond at most; the rest on another thread.
constexpr std::size_t kDecodedOnLoopBytes = 256U << 10;

int status_of(ErrorCode code) {
  if (code == ErrorCode::kTooLarge) return 431;
  return code == ErrorCode::kUnsupported ? 501 : 400;
}

int status_of_body(ErrorCode code) {
  if (code == ErrorCode::kTooLarge) return 413;
  return code == ErrorCode::kResourceExhausted ? 503 : 400;
}

}  // namespace

ServerConnection::ServerConnection(LoopImpl& loop, UniqueFd socket, std::shared_ptr<ServerCore> core,
                                   std::uint64_t address, bool reserved, std::unique_ptr<TlsSession> tls)
    : TcpConnection(loop, std::move(socket), std::move(tls)),
      core_(std::move(core)),
      address_(address),
      reserved_(reserved),
      head_parser_(core_->options.max_header_bytes),
      body_share_(core_->bodies),
      reader_(core_->options.least_read_rate, core_->options.idle_timeout) {}

void ServerConnection::begin() {
  deadline_ = reserved_ || in_handshake() ? now() + core_->options.head_timeout : idle_deadline();
  if (core_->options.stamp_reads) stamp_reads();
  become_idle();
  start_read();
}

// A TLS handshake under way is nothing of a request: who only begins many makes room like who sends nothing.
void ServerConnection::become_idle() {
  if (!reserved_) core_->idle.add(*this);
}

void ServerConnection::on_established() {
  if (!reserved_) deadline_ = idle_deadline();
}

void ServerConnection::on_handshake_failed(const std::string&) {
  core_->options.tls->count_failed_handshake();
  lost(false);
}

TimePoint ServerConnection::idle_deadline() const {
  return now() + core_->options.idle_timeout;
}

void ServerConnection::check_deadline(TimePoint now) {
  if (reader_.is_too_slow(bytes_received_by_peer(), now)) return lost(false);
  if (now < deadline_) return;
  if (in_handshake()) return on_handshake_failed("no handshake in time");
  const bool half_a_request = state_ == State::kBody || (state_ == State::kHead && request_begun_);
  if (half_a_request) return refuse(408, "the request did not arrive in time");
  lost(false);
}

void ServerConnection::close_when_idle() {
  if (state_ == State::kHead && !request_begun_) drop();
}

void ServerConnection::drop() {
  const auto self = shared_from_this();
  leave_server();
  if (exchange_ != nullptr) exchange_->forget_client();
  exchange_ = nullptr;
}

void ServerConnection::hold_until_sent(std::shared_ptr<void> held) {
  if (unsent() > 0) held_until_sent_.push_back(std::move(held));
}

void ServerConnection::lost(bool soon) {
  const auto self = shared_from_this();
  leave_server();
  if (auto* exchange = std::exchange(exchange_, nullptr)) exchange->client_left(soon);
}

void ServerConnection::leave_server() {
  close();
  leave_idle();
  held_until_sent_.clear();
  if (const auto ticket = std::exchange(decoding_, std::nullopt)) core_->decompressor.abandon(*ticket);
  body_share_.clear();
  const bool was_there = core_->connections.erase(std::static_pointer_cast<ServerConnection>(shared_from_this())) > 0;
  if (was_there && core_->options.by_address) core_->options.by_address->leave(address_);
}

// Reading.

void ServerConnection::on_read(std::string_view bytes) {
  switch (state_) {
    case State::kHead:
    case State::kBody:
      if (waiting_.empty()) {
        process(bytes);
      } else {
        waiting_.append(bytes);
        process_waiting();
      }
      break;
    case State::kDecoding:
    case State::kAnswering:
    case State::kFlushing:
      waiting_.append(bytes);
      break;
    case State::kUpgraded:
      give_to_exchange(bytes);
      if (closed()) return;
      break;
    case State::kLingering:
      lingered_bytes_ += bytes.size();
      if (lingered_bytes_ > kMaxLingerBytes) return drop();
      break;
  }
  read_on();
}

// Beyond the bound nothing is read until the answer is complete. Until then the client's leaving is not read either,
// but the system tells it.
void ServerConnection::read_on() {
  if (waiting_.size() < kMaxWaitingBytes) return start_read();
  if (!closed() && hung_up_) on_hung_up();
}

void ServerConnection::on_hung_up() {
  const bool is_paused = waiting_.size() >= kMaxWaitingBytes;
  if (is_paused && (state_ == State::kDecoding || state_ == State::kAnswering)) lost(false);
}

void ServerConnection::on_read_failed(bool end, const std::string&) {
  if (end && state_ == State::kFlushing) {
    // The client may have closed only its sending direction and still be reading, so the connection is kept up to the
    // deadline.
    ends_after_answer_ = true;
    return;
  }
  lost(false);
}

void ServerConnection::process_waiting() {
  const std::string input = std::exchange(waiting_, {});
  process(input);
}

void ServerConnection::process(std::string_view input) {
  processing_ = true;
  while (!closed()) {
    if (state_ == State::kHead) {
      if (!take_head(input)) break;
    } else if (state_ == State::kBody) {
      if (!take_body(input)) break;
    } else {
      break;
    }
  }
  processing_ = false;
  if (!closed() && state_ == State::kUpgraded) return give_to_exchange(input);
  if (!closed() && state_ != State::kLingering) waiting_.assign(input);
}

void ServerConnection::upgraded() {
  state_ = State::kUpgraded;
  body_share_.clear();
  if (processing_) return;  // what came with the request follows it
  // From the loop, because the answer may have been given deep inside the service.
  loop().post([self = std::static_pointer_cast<ServerConnection>(shared_from_this())] {
    if (!self->closed() && self->state_ == State::kUpgraded) self->give_to_exchange(std::exchange(self->waiting_, {}));
    if (!self->closed()) self->start_read();
  });
}

void ServerConnection::give_to_exchange(std::string_view bytes) {
  if (exchange_ != nullptr && !bytes.empty()) exchange_->received(bytes);
}

bool ServerConnection::take_head(std::string_view& input) {
  if (!request_begun_) {
    // Empty lines before a request are to be ignored (RFC 9112, 2.2).
    while (input.starts_with("\r\n")) input.remove_prefix(2);
    if (input.empty()) {
      become_idle();
      return false;
    }
    leave_idle();
    request_begun_ = true;
    deadline_ = now() + core_->options.head_timeout;
  }
  auto fed = head_parser_.feed(input);
  if (!fed) {
    refuse(status_of(fed.error().code), fed.error().message);
    return false;
  }
  if (!*fed) return false;
  RequestHead& head = **fed;
  http11_ = head.http11;
  head_request_ = head.request.method == "HEAD";
  ends_after_answer_ = !head.keep_alive || reserved_;
  if (head.expects_other) {
    refuse(417, "expectation is not 100-continue");
    return false;
  }
  request_ = std::move(head.request);
  coding_.reset();
  begin_body(head, !input.empty());
  return true;
}

void ServerConnection::begin_body(const RequestHead& head, bool body_has_begun) {
  const std::uint64_t length = head.content_length.value_or(0);
  if (head.chunked || length > 0) {
    // A stranger's body must not take memory, so whatever the head is enough to refuse is refused now; first, who asks:
    // what is wrong with a body is told only to those who may send one.
    std::optional<HttpResponse> answer = own_answer();
    if (!answer && core_->options.before_body) answer = core_->options.before_body(request_);
    if (answer) return end_with(*std::move(answer));
    if (length > core_->options.max_body_bytes) return refuse(413, "the request body is too large");
    if (!read_coding()) return;
  }
  body_decoder_ = head.chunked ? BodyDecoder::chunked() : BodyDecoder::sized(length);
  state_ = State::kBody;
  if (body_decoder_.done()) return;
  deadline_ = now() + core_->options.body_timeout;
  request_.body.reserve(static_cast<std::size_t>(std::min(length, kReservedBodyBytes)));
  if (head.expects_continue && !body_has_begun && !send({"HTTP/1.1 100 Continue\r\n\r\n"})) lost(false);
}

bool ServerConnection::read_coding() {
  coding_.reset();
  for (const auto& [name, value] : request_.headers.fields()) {
    if (!equals_no_case(name, "content-encoding") || equals_no_case(value, "identity")) continue;
    const auto coding = content_coding(value);
    if (coding && !coding_) {
      coding_ = coding;
      continue;
    }
    core_->counts.count_refusal(415);
    HttpResponse answer = error_response(
        415,
        std::string("the Content-Encoding of the body is none that is read here: one of ").append(kContentCodings));
    answer.headers.add("Accept-Encoding", std::string(kContentCodings));
    end_with(std::move(answer));
    return false;
  }
  return true;
}

// What is decompressed counts for the bounds in place of what came.
void ServerConnection::decode() {
  ContentDecoder decoder(*coding_, std::move(request_.body), core_->options.max_body_bytes);
  request_.body.clear();
  const Result<bool> done = decoder.run(kDecodedOnLoopBytes);
  if (!done) return on_decoded(std::unexpected(done.error()));
  if (*done) return on_decoded(decoder.take_output());
  decoder.restart();  // while it waits, it has no more than what came
  decode_on_thread(std::move(decoder));
}

void ServerConnection::decode_on_thread(ContentDecoder decoder) {
  state_ = State::kDecoding;
  deadline_ = kNever;
  auto weak = std::weak_ptr(std::static_pointer_cast<ServerConnection>(shared_from_this()));
  decoding_ = core_->decompressor.submit(loop(), {.decoder = std::move(decoder), .share = body_share_.hand_over()},
                                         [weak = std::move(weak)](Result<std::string> body, BodyShare share) {
                                           const auto self = weak.lock();
                                           if (!self || self->closed() || self->state_ != State::kDecoding) return;
                                           self->decoding_.reset();
                                           self->body_share_ = std::move(share);
                                           self->on_decoded(std::move(body));
                                         });
  if (!decoding_) refuse(503, "too many bodies wait to be decompressed");
}

void ServerConnection::on_decoded(Result<std::string> body) {
  if (!body) return refuse(status_of_body(body.error().code), body.error().message);
  if (!body_share_.resize(body->size())) return refuse(503, kBodiesTooLarge);
  request_.body = *std::move(body);
  request_.headers.remove("Content-Encoding");
  request_.headers.remove("Content-Length");
  dispatch();
}

bool ServerConnection::take_body(std::string_view& input) {
  std::string_view piece;
  switch (body_decoder_.next(input, piece)) {
    case BodyDecoder::Step::kPiece:
      if (request_.body.size() + piece.size() > core_->options.max_body_bytes) {
        refuse(413, "the request body is too large");
        return false;
      }
      if (!body_share_.resize(body_share_.bytes() + piece.size())) {
        refuse(503, kBodiesTooLarge);
        return false;
      }
      request_.body.append(piece);
      return true;
    case BodyDecoder::Step::kDone:
      if (coding_ && !request_.body.empty()) {
        decode();
      } else {
        dispatch();
      }
      return true;
    case BodyDecoder::Step::kNeedMore:
      return false;
    case BodyDecoder::Step::kCorrupt:
      refuse(400, "malformed chunked body");
      return false;
  }
  return false;
}

void ServerConnection::dispatch() {
  state_ = State::kAnswering;
  deadline_ = kNever;
  const auto self = std::static_pointer_cast<ServerConnection>(shared_from_this());
  const auto exchange = std::make_shared<ServerExchange>(self);
  exchange_ = exchange.get();
  exchange->set_request_arrived(arrived());
  if (auto answer = own_answer()) {
    request_ = {};
    return exchange->respond(*std::move(answer));
  }
  core_->handler(std::exchange(request_, {}), exchange);
}

std::optional<HttpResponse> ServerConnection::own_answer() {
  if (reserved_ && (!core_->options.is_reserved || !core_->options.is_reserved(request_))) {
    core_->counts.count_refusal(503);
    HttpResponse full = error_response(503, "too many connections; try again later");
    full.headers.add("Retry-After", "1");
    return full;
  }
  if (!core_->options.browsers) return std::nullopt;
  BrowserVerdict verdict = judge(*core_->options.browsers, request_);
  answer_fields_ = std::move(verdict.fields);
  if (verdict.preflight) return HttpResponse{.status = 204, .headers = {}, .body = {}};
  if (verdict.refused == 0) return std::nullopt;
  core_->counts.count_refusal(verdict.refused);
  return error_response(verdict.refused, verdict.why);
}

void ServerConnection::refuse(int status, std::string_view message) {
  core_->counts.count_refusal(status);
  end_with(error_response(status, message));
}

void ServerConnection::end_with(HttpResponse answer) {
  request_ = {};
  ends_after_answer_ = true;
  state_ = State::kAnswering;
  const auto self = std::static_pointer_cast<ServerConnection>(shared_from_this());
  const auto exchange = std::make_shared<ServerExchange>(self);
  exchange_ = exchange.get();
  exchange->respond(std::move(answer));
}

// Answering.

bool ServerConnection::ends_after_answer() const {
  return ends_after_answer_ || core_->closing;
}

bool ServerConnection::answer(std::initializer_list<std::string_view> pieces) {
  if (!send(pieces)) {
    if (!closed()) lost(true);
    return false;
  }
  return true;
}

void ServerConnection::answer_complete() {
  if (closed()) return;
  state_ = State::kFlushing;
  ends_after_answer_ = ends_after_answer();
  if (unsent() == 0) next_request();
}

void ServerConnection::break_off() {
  const auto self = shared_from_this();
  send_now();
  // HTTP/1.0 has no chunks, so an orderly end would look like a complete answer.
  if (http11_) {
    close();
  } else {
    close_with_reset();
  }
  leave_server();
}

// A client that reads nothing, or less than it has to, for the whole idle time is given up.
void ServerConnection::on_blocked() {
  reader_.begin(bytes_received_by_peer(), now());
}

void ServerConnection::on_sent() {
  if (unsent() == 0) held_until_sent_.clear();
  if (state_ == State::kAnswering || state_ == State::kFlushing || state_ == State::kUpgraded) {
    if (unsent() == 0) {
      reader_.end();
    } else {
      reader_.begin(bytes_received_by_peer(), now());
    }
  }
  if (state_ == State::kFlushing && unsent() == 0) return next_request();
  if (exchange_ != nullptr) exchange_->sent();
}

void ServerConnection::on_send_failed(const std::string&) {
  lost(false);
}

void ServerConnection::next_request() {
  body_share_.clear();  // its request has ended
  answer_fields_.clear();
  if (ends_after_answer_) return linger();
  state_ = State::kHead;
  request_begun_ = false;
  http11_ = true;
  head_request_ = false;
  head_parser_.reset();
  deadline_ = idle_deadline();
  if (processing_) return;
  if (!waiting_.empty()) {
    // From the loop, because the answer may have been given deep inside the service, which must not be called
    // recursively.
    loop().post([self = std::static_pointer_cast<ServerConnection>(shared_from_this())] {
      if (!self->closed() && self->state_ == State::kHead) self->process_waiting();
      if (!self->closed()) self->read_on();
    });
  } else {
    become_idle();
    start_read();
  }
}

void ServerConnection::linger() {
  state_ = State::kLingering;
  deadline_ = now() + kLingerTime;
  waiting_.clear();
  finish_sending();
  start_read();
}

}  // namespace kvist::net
