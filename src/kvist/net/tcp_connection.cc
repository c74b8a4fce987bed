#include "kvist/net/tcp_connection.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "kvist/net/tls_session.h"

namespace kvist::net {

namespace {

// With this much to send, a write is tried at once, so that only the rest of a large body has to be copied.
constexpr std::size_t kSendNowBytes = 64U << 10;

bool may_come_later(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

TcpConnection::TcpConnection(LoopImpl& loop, UniqueFd socket) : TcpConnection(loop, std::move(socket), nullptr) {}

TcpConnection::TcpConnection(LoopImpl& loop, UniqueFd socket, std::unique_ptr<TlsSession> tls)
    : Watched(loop), socket_(std::move(socket)), tls_(std::move(tls)) {
  set_no_delay(socket_.get());
  watch(socket_.get());
}

TcpConnection::~TcpConnection() {
  close();
}

bool TcpConnection::in_handshake() const {
  return tls_ && !tls_->established();
}

std::string TcpConnection::why_failed() const {
  return tls_ && !tls_->problem().empty() ? tls_->problem() : error_text(errno);
}

void TcpConnection::start_read() {
  if (reading_ || closed()) return;
  reading_ = true;
  if (readable_) call_soon();
}

void TcpConnection::on_ready() {
  const auto self = shared_from_this();
  if (closed()) return;
  if (tls_ && !proceed_with_tls()) return;
  if (std::exchange(writable_, false) && std::exchange(blocked_, false)) flush();
  if (closed()) return;
  if (reading_) {
    if (readable_) read();
  } else if (hung_up_) {
    on_hung_up();
  }
}

// TLS may have to read in order to write and the other way round, so that whatever the socket became ready for, both
// are tried.
bool TcpConnection::proceed_with_tls() {
  if (!tls_->established()) {
    switch (tls_->handshake()) {
      case TlsSession::Progress::kDone:
        on_established();
        break;
      case TlsSession::Progress::kBlocked:
        readable_ = false;
        writable_ = false;
        if (tls_->may_go_on()) call_soon();
        return false;
      case TlsSession::Progress::kFailed:
        on_handshake_failed(tls_->problem());
        return false;
    }
  }
  readable_ = true;
  writable_ = true;
  return !closed();
}

void TcpConnection::read() {
  reading_ = false;
  char* const buffer = loop().read_buffer();
  const ssize_t bytes = tls_      ? tls_->read(buffer, LoopImpl::kReadBufferBytes)
                        : stamps_ ? stamps_->receive(socket_.get(), buffer, LoopImpl::kReadBufferBytes)
                                  : ::recv(socket_.get(), buffer, LoopImpl::kReadBufferBytes, 0);
  if (bytes < 0 && may_come_later(errno)) {
    reading_ = true;
    if (errno == EINTR || (tls_ && tls_->may_go_on())) return call_soon();
    readable_ = false;
    return;
  }
  if (bytes <= 0) return on_read_failed(bytes == 0, bytes == 0 ? "End of file" : why_failed());
  // A read of less than was asked for has emptied the socket, and the system will report what comes later. The end of a
  // stream, however, may have been reported together with its last bytes.
  const bool socket_is_empty =
      tls_ ? !tls_->may_go_on() : static_cast<std::size_t>(bytes) < LoopImpl::kReadBufferBytes && !hung_up_;
  if (socket_is_empty) readable_ = false;
  on_read({buffer, static_cast<std::size_t>(bytes)});
  if (!closed() && reading_ && readable_) call_soon();
}

bool TcpConnection::send(std::initializer_list<std::string_view> pieces) {
  if (closed()) return false;
  // A peer that always leaves something unread would otherwise have everything kept that was ever sent to it. Each byte
  // is moved at most once on average.
  if (sent_ >= kSendNowBytes && sent_ * 2 >= out_.size()) {
    out_.erase(0, sent_);
    sent_ = 0;
  }
  if (out_.empty()) loop().lend_queue(out_);
  for (const std::string_view piece : pieces) {
    out_.append(piece);
    if (unsent() >= kSendNowBytes && !blocked_ && !write_some()) return false;
  }
  loop().flush_soon(shared_from_this());
  return true;
}

bool TcpConnection::write_some() {
  if (in_handshake()) {
    blocked_ = true;
    return true;
  }
  while (unsent() > 0) {
    if (stamps_) write_began_ = now();
    const ssize_t taken = tls_ ? tls_->write(out_.data() + sent_, unsent())
                               : ::send(socket_.get(), out_.data() + sent_, unsent(), MSG_NOSIGNAL);
    if (taken < 0 && errno == EINTR) continue;
    if (taken <= 0) {
      if (taken == 0 || !may_come_later(errno)) return false;
      blocked_ = true;
      if (tls_ && tls_->may_go_on()) call_soon();
      on_blocked();
      return true;
    }
    sent_ += static_cast<std::size_t>(taken);
    bytes_sent_ += static_cast<std::uint64_t>(taken);
  }
  out_.clear();
  loop().take_back_queue(out_);
  sent_ = 0;
  return true;
}

void TcpConnection::flush() {
  if (closed() || blocked_) return;
  const std::size_t before = unsent();
  if (!write_some()) return on_send_failed(why_failed());
  if (unsent() < before || unsent() == 0) on_sent();
}

// Behind TLS the system counts the bytes of records, which are some more. So the difference may be less than nothing.
std::uint64_t TcpConnection::bytes_received_by_peer() const {
  return bytes_sent_ - std::min(bytes_sent_, unconfirmed_bytes(socket_.get()));
}

bool TcpConnection::has_unread_bytes() const {
  int bytes = 0;
  return !closed() && ::ioctl(socket_.get(), FIONREAD, &bytes) == 0 && bytes > 0;
}

void TcpConnection::stamp_reads() {
  stamps_ = std::make_unique<ReceiveStamps>();
  stamps_->enable(socket_.get());
  if (tls_) tls_->stamp_reads(stamps_.get());
}

std::optional<TimePoint> TcpConnection::arrived() const {
  return stamps_ ? stamps_->arrived() : std::nullopt;
}

bool TcpConnection::was_one_packet() {
  return stamps_ && !tls_ && !closed() && stamps_->was_one_packet(socket_.get());
}

void TcpConnection::send_now() {
  if (!closed() && !blocked_) (void)write_some();
}

void TcpConnection::close() {
  if (closed()) return;
  if (tls_) tls_->end();
  forget();
  socket_.reset();
}

void TcpConnection::close_with_reset() {
  if (closed()) return;
  tls_.reset();  // no farewell
  const linger reset{.l_onoff = 1, .l_linger = 0};
  (void)::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  close();
}

void TcpConnection::finish_sending() {
  if (closed()) return;
  if (tls_) tls_->end();
  (void)::shutdown(socket_.get(), SHUT_WR);
}

}  // namespace kvist::net
