#include "kvist/net/tcp_connection.h"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <utility>

#include "kvist/base/check.h"

namespace kvist::net {

namespace {

// A burst may have needed a large queue; a connection that lives for hours must not keep it.
constexpr std::size_t kKeptQueueBytes = 64U << 10;

void clear_queue(std::string& queue) {
  if (queue.capacity() > kKeptQueueBytes) {
    queue = {};
  } else {
    queue.clear();
  }
}

}  // namespace

TcpConnection::TcpConnection(LoopImpl& loop, Socket socket, std::size_t read_buffer_bytes)
    : loop_(loop),
      socket_(std::move(socket)),
      buffer_bytes_(read_buffer_bytes),
      // Not zeroed: pages that are never read into cost no memory.
      buffer_(std::make_unique_for_overwrite<char[]>(read_buffer_bytes)) {
  error_code ignored;
  socket_.set_option(Tcp::no_delay(true), ignored);
  // send() must return instead of waiting for a slow peer.
  socket_.non_blocking(true, ignored);
}

void TcpConnection::start_read() {
  if (reading_ || closed_) return;
  reading_ = true;
  socket_.async_read_some(asio::buffer(buffer_.get(), buffer_bytes_),
                          [self = shared_from_this()](const error_code& error, std::size_t bytes) {
                            self->reading_ = false;
                            if (self->closed_) return;
                            if (error) {
                              self->on_read_failed(error == asio::error::eof, error.message());
                            } else {
                              self->on_read(std::string_view(self->buffer_.get(), bytes));
                            }
                          });
}

bool TcpConnection::send(std::initializer_list<std::string_view> pieces) {
  if (closed_) return false;
  if (!flying_.empty()) {
    for (const std::string_view piece : pieces) queued_.append(piece);
    return true;
  }
  std::array<asio::const_buffer, 4> buffers;
  KVIST_CHECK(pieces.size() <= buffers.size(), std::to_string(pieces.size()));
  std::ranges::transform(pieces, buffers.begin(),
                         [](std::string_view piece) { return asio::const_buffer(piece.data(), piece.size()); });
  error_code error;
  std::size_t taken = socket_.write_some(buffers, error);
  if (error && error != asio::error::would_block && error != asio::error::try_again) return false;
  for (const std::string_view piece : pieces) {
    const std::size_t skip = std::min(taken, piece.size());
    taken -= skip;
    flying_.append(piece.substr(skip));
  }
  if (!flying_.empty()) write_queued();
  return true;
}

void TcpConnection::write_queued() {
  socket_.async_write_some(asio::buffer(flying_.data() + flown_, flying_.size() - flown_),
                           [self = shared_from_this()](const error_code& error, std::size_t bytes) {
                             if (self->closed_) return;
                             if (error) return self->on_send_failed(error.message());
                             self->flown_ += bytes;
                             if (self->flown_ == self->flying_.size()) {
                               self->flown_ = 0;
                               clear_queue(self->flying_);
                               self->flying_.swap(self->queued_);
                             }
                             if (!self->flying_.empty()) self->write_queued();
                             self->on_sent();
                           });
}

void TcpConnection::close() {
  if (std::exchange(closed_, true)) return;
  error_code ignored;
  socket_.close(ignored);
}

void TcpConnection::close_with_reset() {
  if (closed_) return;
  error_code ignored;
  socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  close();
}

void TcpConnection::finish_sending() {
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
}

}  // namespace kvist::net
