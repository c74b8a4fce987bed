#include "kvist/net/http_head.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <cctype>
#include <limits>
#include <string>
#include <utility>

namespace kvist::net {

namespace http = boost::beast::http;
using boost::system::error_code;
using BeastView = boost::beast::string_view;

namespace {

// Far more than clients and servers send. The bound matters because some code compares every field with every other.
constexpr std::size_t kMostFields = 256;

std::string text(BeastView view) {
  return {view.data(), view.size()};
}

/// Beast's parser, used up to the end of the head. BodyDecoder handles bodies.
template <bool kIsRequest>
class HeadCollector final : public http::basic_parser<kIsRequest> {
 public:
  std::string method;
  std::string target;
  Headers headers;
  int status = 0;
  int version = 11;

 private:
  void on_request_impl(http::verb, BeastView method_text, BeastView target_text, int http_version,
                       error_code&) override {
    method = text(method_text);
    target = text(target_text);
    version = http_version;
  }
  void on_response_impl(int code, BeastView, int http_version, error_code&) override {
    status = code;
    version = http_version;
  }
  void on_field_impl(http::field, BeastView name, BeastView value, error_code& error) override {
    if (headers.fields().size() == kMostFields) {
      error = http::error::header_limit;
      return;
    }
    headers.add(text(name), text(value));
  }
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(BeastView body, error_code&) override { return body.size(); }
  void on_chunk_header_impl(std::uint64_t, BeastView, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, BeastView body, error_code&) override { return body.size(); }
  void on_finish_impl(error_code&) override {}
};

/// The part that is the same for both directions.
template <bool kIsRequest>
class HeadFeed {
 public:
  explicit HeadFeed(std::size_t max_bytes) : max_bytes_(max_bytes) { reset(); }

  void reset() {
    parser_.emplace();
    // Beast applies its header limit per line, and its body limit to the head too, so both are switched off. This class
    // and its owner check the bounds instead.
    parser_->header_limit(std::numeric_limits<std::uint32_t>::max());
    parser_->body_limit(boost::none);
    taken_ = 0;
    ended_line_ = false;
  }

  /// Returns true when the head is complete.
  Result<bool> feed(std::string_view& input) {
    const std::size_t offered = std::min(input.size(), max_bytes_ - taken_);
    error_code error;
    const std::size_t used = parser_->put(boost::asio::const_buffer(input.data(), offered), error);
    if (kIsRequest && folds(input.substr(0, used))) {
      return fail(ErrorCode::kCorrupt, "malformed HTTP head: a field's value goes on in the next line");
    }
    taken_ += used;
    input.remove_prefix(used);
    if (parser_->is_header_done() && !error) return true;
    if (error == http::error::header_limit) {
      return fail(ErrorCode::kTooLarge, "HTTP head with more than " + std::to_string(kMostFields) + " fields");
    }
    if (error && error != http::error::need_more) {
      return fail(ErrorCode::kCorrupt, "malformed HTTP head: " + error.message());
    }
    if (offered - used + taken_ >= max_bytes_) {
      return fail(ErrorCode::kTooLarge, "HTTP head larger than " + std::to_string(max_bytes_) + " bytes");
    }
    return false;
  }

  HeadCollector<kIsRequest>& parser() { return *parser_; }

 private:
  /// Whether a line begins with white space, which continues the line before (obs-fold). Beast joins the two, but other
  /// parties may not (RFC 9112, 5.2).
  bool folds(std::string_view lines) {
    const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
    bool at_line = std::exchange(ended_line_, lines.empty() ? ended_line_ : lines.back() == '\n');
    while (!lines.empty()) {
      if (at_line && is_blank(lines.front())) return true;
      const std::size_t end = lines.find('\n');
      if (end == std::string_view::npos) return false;
      lines.remove_prefix(end + 1);
      at_line = true;
    }
    return false;
  }

  bool ended_line_ = false;  // the last byte taken was the end of a line
  std::size_t max_bytes_;
  std::size_t taken_ = 0;
  std::optional<HeadCollector<kIsRequest>> parser_;
};

/// What a Transfer-Encoding is that is not just "chunked": one that ends in it is an encoding that is not known here,
/// any other leaves the length of the body open (RFC 9112, 6.1 and 6.3).
Error wrong_encoding(const RequestHead& head, std::size_t fields) {
  const std::string_view value = head.request.headers.find("Transfer-Encoding").value_or("");
  const std::size_t comma = value.rfind(',');
  const bool ends_chunked = head.chunked && head.http11 && fields == 1 && comma != std::string_view::npos;
  std::string before(value.substr(0, ends_chunked ? comma : 0));
  std::ranges::transform(before, before.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (ends_chunked && !before.contains("chunked")) {
    return {ErrorCode::kUnsupported, "Transfer-Encoding has an encoding besides chunked"};
  }
  return {ErrorCode::kCorrupt, "Transfer-Encoding must be chunked, in HTTP/1.1"};
}

/// Checks the rules of RFC 9112 that Beast leaves to its user. Without them two parties could read different requests
/// from the same bytes.
Result<void> check_framing(const RequestHead& head) {
  const Headers& headers = head.request.headers;
  std::size_t hosts = 0;
  std::size_t encodings = 0;
  for (const auto& [name, value] : headers.fields()) {
    hosts += equals_no_case(name, "host") ? 1 : 0;
    encodings += equals_no_case(name, "transfer-encoding") ? 1 : 0;
  }
  if (encodings > 0) {
    const bool plain = encodings == 1 && equals_no_case(*headers.find("Transfer-Encoding"), "chunked");
    if (!plain || !head.chunked || !head.http11) return std::unexpected(wrong_encoding(head, encodings));
  }
  if (head.http11 && hosts == 0) return fail(ErrorCode::kCorrupt, "HTTP/1.1 request without Host");
  if (hosts > 1) return fail(ErrorCode::kCorrupt, "a request with more than one Host");
  return {};
}

/// Who takes this server for a proxy sends the whole address ("GET http://host/path"). Its host is then what counts,
/// and not the field (RFC 9112, 3.2.2).
Result<void> take_origin_form(HttpRequest& request) {
  const std::string_view target = request.target;
  std::size_t authority = 0;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (equals_no_case(target.substr(0, scheme.size()), scheme)) authority = scheme.size();
  }
  if (authority == 0) return {};
  const std::size_t end = std::min(target.find_first_of("/?#", authority), target.size());
  const std::string host(target.substr(authority, end - authority));
  if (host.empty() || host.contains('@')) {
    return fail(ErrorCode::kCorrupt, "a request target with a malformed host");
  }
  const std::string_view rest = target.substr(end);
  request.target = rest.starts_with('/') ? std::string(rest) : "/" + std::string(rest);
  request.headers.set("Host", host);
  return {};
}

}  // namespace

class RequestHeadParser::Impl : public HeadFeed<true> {
  using HeadFeed::HeadFeed;
};

RequestHeadParser::RequestHeadParser(std::size_t max_bytes) : impl_(std::make_unique<Impl>(max_bytes)) {}
RequestHeadParser::~RequestHeadParser() = default;
void RequestHeadParser::reset() {
  impl_->reset();
}

Result<std::optional<RequestHead>> RequestHeadParser::feed(std::string_view& input) {
  KVIST_TRY(const bool complete, impl_->feed(input));
  if (!complete) return std::nullopt;
  auto& parser = impl_->parser();
  RequestHead head;
  head.request.method = std::move(parser.method);
  head.request.target = std::move(parser.target);
  head.request.headers = std::move(parser.headers);
  head.http11 = parser.version >= 11;
  head.keep_alive = parser.keep_alive();
  head.chunked = parser.chunked();
  if (const auto length = parser.content_length()) head.content_length = *length;
  KVIST_TRY_VOID(check_framing(head));
  KVIST_TRY_VOID(take_origin_form(head.request));
  if (const auto expect = head.request.headers.find("Expect"); expect && head.http11) {
    head.expects_continue = equals_no_case(*expect, "100-continue");
    head.expects_other = !head.expects_continue;
  }
  return head;
}

class ResponseHeadParser::Impl : public HeadFeed<false> {
  using HeadFeed::HeadFeed;
};

ResponseHeadParser::ResponseHeadParser(std::size_t max_bytes) : impl_(std::make_unique<Impl>(max_bytes)) {}
ResponseHeadParser::~ResponseHeadParser() = default;
void ResponseHeadParser::reset(bool to_head_request) {
  impl_->reset();
  impl_->parser().skip(to_head_request);
}

Result<std::optional<ResponseHead>> ResponseHeadParser::feed(std::string_view& input) {
  KVIST_TRY(const bool complete, impl_->feed(input));
  if (!complete) return std::nullopt;
  auto& parser = impl_->parser();
  ResponseHead head;
  head.status = parser.status;
  head.headers = std::move(parser.headers);
  head.keep_alive = parser.keep_alive();
  if (!parser.is_done()) {
    if (parser.chunked()) {
      head.body = BodyDecoder::chunked();
    } else if (const auto length = parser.content_length()) {
      head.body = BodyDecoder::sized(*length);
    } else {
      head.body = BodyDecoder::until_close();
    }
  }
  return head;
}

}  // namespace kvist::net
