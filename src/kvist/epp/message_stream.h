// The two ends of a stream of messages, so that neither has to know the other's library.
#pragma once

#include <string>

#include "kvist/base/error.h"
#include "kvist/epp/ext_proc_messages.h"
#include "kvist/epp/processing_exchange.h"

namespace kvist::epp {

/// The end towards the proxy. After end(), and once the proxy has left, calls do nothing. Threads: any.
class MessageSink {
 public:
  virtual ~MessageSink() = default;
  virtual void send(std::string message) = 0;
  /// Ends the stream behind what was sent.
  virtual void end(StreamEnd how) = 0;
};

/// The end that gets the proxy's messages. Threads: the loop's.
class MessageReceiver {
 public:
  virtual ~MessageReceiver() = default;
  /// An error: the message could not be read.
  virtual void on_message(Result<ProcessingRequest> message) = 0;
  /// No further message comes: the proxy has ended the stream, or it broke. Called once, and last.
  virtual void on_closed() = 0;
};

}  // namespace kvist::epp
