// Private to epp: one call of the gRPC server. The only header that includes gRPC's.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "kvist/base/error.h"
#include "kvist/epp/message_stream.h"

namespace kvist::epp {

/// A bidirectional stream of whole messages as bytes. Events come on gRPC's threads, one after the other except for
/// on_closed, which may come beside on_message once. Threads: any.
class GrpcStream final : public grpc::ServerGenericBidiReactor,
                         public MessageSink,
                         public std::enable_shared_from_this<GrpcStream> {
 public:
  struct Events {
    std::function<void(std::string)> on_message;  ///< taken() is to be called when it was dealt with
    std::function<void()> on_closed;              ///< no further message comes
    std::function<void()> on_done;                ///< gRPC has let go of the stream
  };

  /// A stream that exists as long as gRPC or somebody else needs it. Nothing is read before start().
  [[nodiscard]] static std::shared_ptr<GrpcStream> make();
  void start(Events events);

  // MessageSink.
  void send(std::string message) override;
  void end(StreamEnd how) override;
  /// Ends the stream with another of gRPC's statuses.
  void end(const grpc::Status& status);
  /// A message was dealt with, so that another one may be read.
  void taken();

  // Called by gRPC.
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  GrpcStream() = default;
  /// What may be begun now. Requires: mutex_ is held.
  void go_on();
  void note_closed();

  // Recursive, because gRPC may report an operation from within the call that begins it.
  std::recursive_mutex mutex_;
  std::shared_ptr<GrpcStream> self_;  // until OnDone
  Events events_;
  grpc::ByteBuffer reading_;
  grpc::ByteBuffer writing_;
  std::deque<std::string> unsent_;
  std::size_t unsent_bytes_ = 0;
  std::size_t untaken_ = 0;  // messages that were read and not dealt with
  bool started_ = false;
  bool is_reading_ = false;
  bool is_writing_ = false;
  bool is_read_out_ = false;  // no further message comes
  bool is_closed_ = false;    // on_closed was called
  bool is_cancelled_ = false;
  bool is_ending_ = false;
  bool is_finished_ = false;  // gRPC was told so
  grpc::Status status_;
};

}  // namespace kvist::epp
