// Private to net: parses the heads of requests and answers (start line and fields) with Beast, which stays behind this.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/net/body_decoder.h"
#include "kvist/net/http_types.h"

namespace kvist::net {

/// A parsed request head: the request without its body, and how the body is framed.
struct RequestHead {
  HttpRequest request;
  bool http11 = true;
  bool keep_alive = true;
  bool chunked = false;
  bool expects_continue = false;
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
  /// Takes bytes from the front of `input`; what it leaves must be given again with more behind it. A value when the
  /// head is complete; kTooLarge and kCorrupt otherwise. After a value or an error, reset() comes first.
  [[nodiscard]] Result<std::optional<RequestHead>> feed(std::string_view& input);
  void reset();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// The same for answers.
class ResponseHeadParser {
 public:
  explicit ResponseHeadParser(std::size_t max_bytes);
  ~ResponseHeadParser();
  [[nodiscard]] Result<std::optional<ResponseHead>> feed(std::string_view& input);
  /// `to_head_request`: the answer has no body whatever its fields say.
  void reset(bool to_head_request);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvist::net
