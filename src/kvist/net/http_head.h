// Private to net: parses the heads of requests and answers (start line and fields) with Beast, which no other file
// includes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/net/body_decoder.h"
#include "kvist/net/http_types.h"

namespace kvist::net {

/// A parsed request head: the request without its body, and the framing of the body.
struct RequestHead {
  HttpRequest request;
  bool http11 = true;
  bool keep_alive = true;
  bool chunked = false;
  bool expects_continue = false;
  bool expects_other = false;  ///< something that is not known here
  std::optional<std::uint64_t> content_length;
};

/// A parsed head of an answer.
struct ResponseHead {
  int status = 0;
  Headers headers;
  bool keep_alive = true;
  BodyDecoder body = BodyDecoder::empty();
};

/// Parses request heads, one after the other.
class RequestHeadParser {
 public:
  explicit RequestHeadParser(std::size_t max_bytes);
  ~RequestHeadParser();
  /// Removes bytes from the front of `input`. The rest has to be given again with more bytes after it. Returns the head
  /// when it is complete. Errors: kTooLarge, kCorrupt and kUnsupported (an
  /// encoding). Requires: reset() is called after a head or an error.
  [[nodiscard]] Result<std::optional<RequestHead>> feed(std::string_view& input);
  void reset();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Parses the heads of answers, like RequestHeadParser. Requires: reset() is called before each.
class ResponseHeadParser {
 public:
  explicit ResponseHeadParser(std::size_t max_bytes);
  ~ResponseHeadParser();
  [[nodiscard]] Result<std::optional<ResponseHead>> feed(std::string_view& input);
  /// `to_head_request`: the answer has no body, whatever its fields are.
  void reset(bool to_head_request);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvist::net
