// fuzz: epp
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/epp/ext_proc_codec.h"
#include "kvist/epp/processing_exchange.h"

namespace {

constexpr std::size_t kMaxBodyBytes = 4'096;

// A stream of messages, each behind a byte with its length. What came of a body has to be within its bound, and what is
// given back of it the same bytes; every message of an answer has one reply; nothing follows the end.
void run_stream(std::string_view bytes) {
  kvist::epp::ProcessingExchange exchange(kMaxBodyBytes);
  while (!bytes.empty()) {
    const std::size_t length = std::min<std::size_t>(static_cast<unsigned char>(bytes.front()), bytes.size() - 1);
    auto message = kvist::epp::read_processing_request(bytes.substr(1, length));
    bytes.remove_prefix(1 + length);
    if (!message) continue;
    const bool over = exchange.is_over();
    const kvist::epp::ExchangeActions actions = exchange.on_message(*std::move(message));
    KVIST_CHECK(!over || (actions.replies.empty() && !actions.request && !actions.answer), "nothing follows the end");
    if (actions.answer && !actions.end) KVIST_CHECK(actions.replies.size() <= 1, "one reply to a message of an answer");
    if (actions.request) {
      KVIST_CHECK(actions.request->body.size() <= kMaxBodyBytes, "the body's bound");
      (void)exchange.on_picked({"127.0.0.1:8000"}, actions.request->body);
    }
    if (actions.refused) (void)exchange.on_refused({.status = 413});
  }
}

}  // namespace

/// The bytes as one message, as a health question, and as a stream of messages.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto message = kvist::epp::read_processing_request(bytes)) {
    KVIST_CHECK(message->headers.fields().size() <= kvist::epp::kMostFields, "the bound on header fields");
    KVIST_CHECK(message->body.size() <= size, "a body is a part of its message");
  }
  (void)kvist::epp::read_health_request(bytes);
  run_stream(bytes);
  return 0;
}
