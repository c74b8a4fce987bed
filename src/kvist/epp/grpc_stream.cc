#include "kvist/epp/grpc_stream.h"

#include <utility>
#include <vector>

namespace kvist::epp {
namespace {

constexpr std::size_t kMostUntaken = 8;
constexpr std::size_t kMostUnsentBytes = 1U << 20;

std::string bytes_of(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Dump(&slices).ok()) return bytes;
  bytes.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

grpc::ByteBuffer buffer_of(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

}  // namespace

std::shared_ptr<GrpcStream> GrpcStream::make() {
  std::shared_ptr<GrpcStream> stream(new GrpcStream());
  stream->self_ = stream;
  return stream;
}

void GrpcStream::start(Events events) {
  const std::scoped_lock lock(mutex_);
  events_ = std::move(events);
  started_ = true;
  go_on();
}

void GrpcStream::go_on() {
  if (!started_ || is_finished_) return;
  if (!is_writing_ && !unsent_.empty()) {
    is_writing_ = true;
    writing_ = buffer_of(unsent_.front());
    unsent_bytes_ -= unsent_.front().size();
    unsent_.pop_front();
    grpc::WriteOptions options;
    if (!unsent_.empty()) options.set_buffer_hint();
    StartWrite(&writing_, options);
  }
  if (!is_writing_ && unsent_.empty() && (is_ending_ || is_cancelled_)) {
    is_finished_ = true;
    Finish(is_ending_ ? status_ : grpc::Status(grpc::StatusCode::CANCELLED, "the client has left"));
    return;
  }
  const bool may_read = !is_reading_ && !is_read_out_ && !is_ending_ && !is_cancelled_;
  if (may_read && untaken_ < kMostUntaken && unsent_bytes_ < kMostUnsentBytes) {
    is_reading_ = true;
    StartRead(&reading_);
  }
}

void GrpcStream::send(std::string message) {
  const std::scoped_lock lock(mutex_);
  if (is_ending_ || is_cancelled_) return;
  unsent_bytes_ += message.size();
  unsent_.push_back(std::move(message));
  go_on();
}

void GrpcStream::end(StreamEnd how) {
  end(grpc::Status(static_cast<grpc::StatusCode>(how.code), std::move(how.message)));
}

void GrpcStream::end(const grpc::Status& status) {
  const std::scoped_lock lock(mutex_);
  if (is_ending_) return;
  is_ending_ = true;
  status_ = status;
  go_on();
}

void GrpcStream::taken() {
  const std::scoped_lock lock(mutex_);
  --untaken_;
  go_on();
}

void GrpcStream::OnReadDone(bool ok) {
  std::string message;
  {
    const std::scoped_lock lock(mutex_);
    if (!ok) {
      is_read_out_ = true;
    } else {
      message = bytes_of(reading_);
      reading_.Clear();
      ++untaken_;
    }
  }
  if (!ok) return note_closed();
  // Only then may another read begin, whose message could come to another thread and be told of first.
  events_.on_message(std::move(message));
  const std::scoped_lock lock(mutex_);
  is_reading_ = false;
  go_on();
}

void GrpcStream::OnWriteDone(bool ok) {
  const std::scoped_lock lock(mutex_);
  is_writing_ = false;
  if (!ok) {
    unsent_.clear();
    unsent_bytes_ = 0;
  }
  go_on();
}

void GrpcStream::OnCancel() {
  {
    const std::scoped_lock lock(mutex_);
    is_cancelled_ = true;
    unsent_.clear();
    unsent_bytes_ = 0;
    go_on();
  }
  note_closed();
}

void GrpcStream::note_closed() {
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(is_closed_, true)) return;
  }
  events_.on_closed();
}

void GrpcStream::OnDone() {
  note_closed();
  events_.on_done();
  const std::shared_ptr<GrpcStream> last = std::exchange(self_, nullptr);
}

}  // namespace kvist::epp
