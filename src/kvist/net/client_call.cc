#include "kvist/net/client_call.h"

#include <algorithm>
#include <utility>

#include "kvist/net/tls.h"
#include "kvist/net/tls_session.h"

namespace kvist::net {

namespace {

constexpr std::size_t kMaxHeadBytes = 64U << 10;
constexpr int kMostInterimAnswers = 16;
/// By so much the real-time clock, which stamps packets, may run differently while a packet waits to be read.
constexpr Duration kClockTolerance = std::chrono::milliseconds(1);

bool control(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7F;
}

/// Whether the request can be sent: with a line break in it, a request line or field would become several.
bool sendable(const HttpRequest& request) {
  const auto clean = [](std::string_view text) { return std::ranges::none_of(text, control); };
  const auto word = [&](std::string_view text) { return !text.empty() && clean(text) && !text.contains(' '); };
  return word(request.method) && word(request.target) &&
         std::ranges::all_of(request.headers.fields(),
                             [&](const auto& field) { return word(field.first) && clean(field.second); });
}

/// Whether the client writes this field itself.
bool is_framing(std::string_view name) {
  return equals_no_case(name, "host") || equals_no_case(name, "transfer-encoding") ||
         equals_no_case(name, "content-length");
}

/// `fields` are the server's own. Among them is a key if there are any.
std::string write_head(const HttpRequest& request, std::string_view authority, std::string_view fields) {
  const bool bodiless = request.body.empty() && (request.method == "GET" || request.method == "HEAD");
  std::string head;
  head.reserve(512);
  head.append(request.method).append(" ").append(request.target).append(" HTTP/1.1\r\n");
  for (const auto& [name, value] : request.headers.fields()) {
    if (!fields.empty() && equals_no_case(name, "authorization")) continue;
    if (!is_framing(name)) head.append(name).append(": ").append(value).append("\r\n");
  }
  head.append(fields).append("Host: ").append(authority).append("\r\n");
  if (!bodiless) head.append("Content-Length: ").append(std::to_string(request.body.size())).append("\r\n");
  return head += "\r\n";
}

}  // namespace

ClientCall::ClientCall(std::shared_ptr<ConnectionPool> pool, std::string base_url,
                       std::shared_ptr<const HttpRequest> request, Duration timeout, CallHandlers handlers)
    : pool_(std::move(pool)),
      base_url_(std::move(base_url)),
      request_(std::move(request)),
      timeout_(timeout),
      handlers_(std::move(handlers)),
      timer_(pool_->loop().timers()),
      head_parser_(kMaxHeadBytes),
      head_request_(request_->method == "HEAD") {}

ClientCall::~ClientCall() = default;

void ClientCall::start() {
  times_.started = now();
  // A time-out of centuries means none. The sum must not overflow.
  deadline_ = timeout_ < TimePoint::max() - times_.started ? times_.started + timeout_ : TimePoint::max();
  pool_->loop().post([self = shared_from_this()] { self->begin(); });
}

Result<void> ClientCall::prepare() {
  KVIST_TRY(server_, pool_->server_of(base_url_));
  url_ = &server_->url;
  if (url_->target != "/") return kvist::fail(ErrorCode::kInvalidArgument, "a base URL has no path: " + base_url_);
  if (!sendable(*request_)) return kvist::fail(ErrorCode::kInvalidArgument, "method, target or a header is malformed");
  head_ = write_head(*request_, url_->authority, server_->fields);
  return {};
}

void ClientCall::begin() {
  if (finished_) return;
  if (auto prepared = prepare(); !prepared) return fail(prepared.error().code, std::move(prepared.error().message));
  const HttpClientOptions& options = pool_->options();
  const Duration most_idle = request_->only_once ? options.most_idle_for_only_once : options.idle_timeout;
  if (auto connection = pool_->take(base_url_, most_idle)) {
    reused_ = true;
    attach(std::move(connection));
  } else {
    connect();
  }
}

// Connecting.

void ClientCall::connect() {
  connect_deadline_ = std::min(deadline_, now() + pool_->options().connect_timeout);
  arm(connect_deadline_);
  endpoints_.clear();
  next_endpoint_ = 0;
  connect_error_ = {};
  if (const auto endpoint = numeric_endpoint(url_->host, url_->port)) {
    endpoints_.push_back(*endpoint);
    return connect_next();
  }
  pool_->loop().resolver().resolve(
      url_->host, url_->port, [weak = weak_from_this()](Result<std::vector<Endpoint>> found) {
        const auto self = weak.lock();
        if (!self || self->finished_) return;
        if (!found) {
          return self->fail(found.error().code, "cannot resolve " + self->url_->host + ": " + found.error().message);
        }
        self->endpoints_ = *std::move(found);
        self->connect_next();
      });
}

// Each address has an equal share of the time that is left.
void ClientCall::connect_next() {
  while (next_endpoint_ < endpoints_.size()) {
    auto socket = pool_->connect(endpoints_[next_endpoint_++]);
    if (socket) {
      connecting_ = std::make_unique<PendingConnect>(
          pool_->loop(), *std::move(socket), [this](UniqueFd connected) { on_connected(std::move(connected)); });
      const TimePoint at = now();
      const auto left = static_cast<Duration::rep>(endpoints_.size() - next_endpoint_ + 1);
      return arm(at + std::max(Duration(), connect_deadline_ - at) / left);
    }
    note_connect_error(socket.error());
  }
  fail(connect_error_.code, "cannot connect to " + url_->authority + ": " + connect_error_.message);
}

// What one address says of the server counts more than that this machine cannot reach another one: "localhost" may have
// one of IPv6 where there is no IPv6.
void ClientCall::note_connect_error(Error error) {
  if (error.code == ErrorCode::kResourceExhausted && !connect_error_.message.empty()) return;
  connect_error_ = std::move(error);
}

void ClientCall::on_connected(UniqueFd socket) {
  const auto self = shared_from_this();
  const auto gone = std::move(connecting_);
  if (const int error = connect_error(socket.get()); error != 0) {
    const bool local = is_local_exhaustion(error);
    note_connect_error({local ? ErrorCode::kResourceExhausted : ErrorCode::kUnavailable, error_text(error)});
    return connect_next();
  }
  auto tls = server_->tls ? server_->tls->connect(socket.get(), url_->host) : nullptr;
  if (server_->tls && !tls) return fail(ErrorCode::kInvalidArgument, "no certificate can be for " + url_->authority);
  auto connection =
      std::make_shared<ClientConnection>(pool_->loop(), std::move(socket), std::move(tls), base_url_, pool_);
  if (pool_->options().stamp_reads) connection->stamp_reads();
  attach(std::move(connection));
  if (!finished_ && connection_->in_handshake()) arm(connect_deadline_);
}

void ClientCall::on_established() {
  arm(deadline_);
}

void ClientCall::on_handshake_failed(const std::string& why) {
  fail(ErrorCode::kUnavailable, url_->authority + ": TLS: " + why);
}

void ClientCall::attach(std::shared_ptr<ClientConnection> connection) {
  arm(deadline_);
  connection_ = std::move(connection);
  connection_->serve(shared_from_this());
  head_parser_.reset(head_request_);
  interim_answers_ = 0;
  request_sent_ = false;
  if (!connection_->send({head_, request_->body})) return on_lost(false, "the connection broke");
  connection_->start_read();
}

void ClientCall::on_request_progress() {
  if (request_sent_ || !connection_ || connection_->unsent() > 0) return;
  request_sent_ = true;
  times_.sent = now();
  if (pool_->options().stamp_reads) longest_send_ = times_.sent - connection_->write_began();
  invoke(handlers_.on_sent, times_.sent);
}

void ClientCall::on_send_failed(const std::string& why) {
  // The server may have answered before it closed, as with 413, so its answer still has to be read.
  if (!paused_ && connection_) return connection_->start_read();
  on_lost(false, why);
}

void ClientCall::arm(TimePoint when) {
  if (when == TimePoint::max()) return;
  timer_.arm(when, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_timeout();
  });
}

void ClientCall::on_timeout() {
  if (finished_) return;
  if (connecting_ && next_endpoint_ < endpoints_.size() && now() < connect_deadline_) {
    connecting_.reset();
    note_connect_error({ErrorCode::kUnavailable, "no answer in time"});
    return connect_next();
  }
  if ((!connection_ || connection_->in_handshake()) && now() < deadline_) {
    return fail(ErrorCode::kUnavailable, "no connection to " + url_->authority + " within the connect time-out");
  }
  fail(ErrorCode::kDeadlineExceeded, "no whole answer from " + url_->authority + " in time");
}

// The answer.

void ClientCall::on_bytes(std::string_view bytes) {
  const TimePoint at = now();
  if (!answered_) {
    answered_ = true;
    times_.first_byte = at;
  }
  if (waiting_.empty()) return deliver(bytes, at);
  waiting_.append(bytes);
  const std::string input = std::exchange(waiting_, {});
  deliver(input, at);
}

void ClientCall::deliver(std::string_view input, TimePoint at) {
  const auto self = shared_from_this();
  read_at_ = at;
  one_packet_.reset();
  while (!finished_ && !paused_) {
    if (!(body_ ? take_body(input, at) : take_head(input))) break;
  }
  if (finished_) return;
  waiting_.assign(input);
  if (!paused_) connection_->start_read();
}

bool ClientCall::take_head(std::string_view& input) {
  auto fed = head_parser_.feed(input);
  if (!fed) {
    fail(ErrorCode::kCorrupt, url_->authority + ": " + fed.error().message);
    return false;
  }
  if (!*fed) return false;
  ResponseHead& head = **fed;
  if (head.status == 101) {
    fail(ErrorCode::kCorrupt, url_->authority + " switches to a protocol nobody asked for");
    return false;
  }
  if (head.status < 100) {
    fail(ErrorCode::kCorrupt, url_->authority + " answers with the status " + std::to_string(head.status));
    return false;
  }
  if (head.status < 200) {  // 100 Continue, for instance; the final answer follows
    if (++interim_answers_ > kMostInterimAnswers) {
      fail(ErrorCode::kCorrupt, url_->authority + " sends interim answers without end");
      return false;
    }
    head_parser_.reset(head_request_);
    return true;
  }
  body_ = head.body;
  keep_alive_ = head.keep_alive;
  request_.reset();  // from here on the request is not sent again
  invoke(handlers_.on_head, head.status, std::move(head.headers));
  return true;
}

bool ClientCall::take_body(std::string_view& input, TimePoint at) {
  std::string_view piece;
  switch (body_->next(input, piece)) {
    case BodyDecoder::Step::kPiece:
      behind_piece_ = input.size();
      invoke(handlers_.on_body, piece, at);
      return true;
    case BodyDecoder::Step::kDone:
      finish(input.empty());
      return false;
    case BodyDecoder::Step::kNeedMore:
      return false;
    case BodyDecoder::Step::kCorrupt:
      fail(ErrorCode::kCorrupt, url_->authority + ": malformed chunked body");
      return false;
  }
  return false;
}

PieceAge ClientCall::piece_age(HttpCall::Bytes which) {
  if (!connection_) return {};
  const Duration quiet = std::max(Duration(), read_at_ - connection_->quiet_until());
  const std::optional<TimePoint> arrived = connection_->arrived();
  // A stamp from before the loop last looked is one of a clock that was set meanwhile.
  const Duration unread = std::clamp(read_at_ - connection_->came_after(), Duration(), quiet);
  if (!arrived || *arrived > read_at_ || read_at_ - *arrived > quiet + kClockTolerance) return {.at_most = unread};
  const Duration age = read_at_ - *arrived;
  // Behind a chunk of the transfer encoding comes a line break.
  constexpr std::size_t kLineBreak = 2;
  if (which == HttpCall::Bytes::kLast && behind_piece_ <= kLineBreak) {
    return {.at_least = age, .at_most = age, .stamped = true};
  }
  if (!one_packet_) one_packet_ = connection_->was_one_packet();
  return {.at_least = age, .at_most = *one_packet_ ? age : std::max(age, unread), .stamped = true};
}

void ClientCall::resume() {
  if (!std::exchange(paused_, false) || finished_) return;
  pool_->loop().post([self = shared_from_this()] {
    if (self->finished_ || self->paused_ || !self->connection_) return;
    const std::string input = std::exchange(self->waiting_, {});
    self->deliver(input, now());
  });
}

void ClientCall::on_lost(bool end, const std::string& why) {
  if (finished_) return;
  if (!answered_ && reused_ && !request_->only_once) {
    // The server closed the idle connection while the request was being sent, so it is sent again on a new one.
    reused_ = false;
    connection_->serve(nullptr);
    connection_->close();
    connection_.reset();
    return connect();
  }
  if (end && body_ && body_->may_close()) return finish(false);
  fail(ErrorCode::kUnavailable,
       url_->authority + (answered_ ? " broke off its answer: " : " closed the connection without an answer: ") + why);
}

// The end.

void ClientCall::finish(bool reusable) {
  finished_ = true;
  timer_.cancel();
  const auto connection = std::exchange(connection_, nullptr);
  connection->serve(nullptr);
  if (reusable && keep_alive_ && request_sent_ && body_->done()) {
    pool_->put(connection);
  } else {
    connection->close();
  }
  invoke(handlers_.on_end, std::as_const(times_));
  release();
}

void ClientCall::fail(ErrorCode code, std::string message) {
  if (finished_) return;
  const auto self = shared_from_this();
  const bool answered = answered_;
  stop();
  invoke(handlers_.on_error, Error{code, std::move(message)}, answered);
  release();
}

void ClientCall::cancel() {
  if (finished_) return;
  stop();
  release();
}

void ClientCall::stop() {
  finished_ = true;
  timer_.cancel();
  connecting_.reset();
  if (const auto connection = std::exchange(connection_, nullptr)) {
    connection->serve(nullptr);
    connection->close();
  }
}

/// Releases what the handlers hold. If one of them is running, this happens when it returns.
void ClientCall::release() {
  if (depth_ > 0) return;
  const auto gone = std::exchange(handlers_, {});
}

template <class Handler, class... Arguments>
void ClientCall::invoke(const Handler& handler, Arguments&&... arguments) {
  if (!handler) return;
  ++depth_;
  handler(std::forward<Arguments>(arguments)...);
  --depth_;
  if (finished_) release();
}

}  // namespace kvist::net
