// fuzz: dialects
// Any text as a request of each dialect: what is accepted becomes a body that can be read. The same text, line by line,
// as a stream and as a whole answer: what comes out is one JSON object per event.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kvist/base/check.h"
#include "kvist/base/json.h"
#include "kvist/dialects/dialect.h"

namespace {

namespace dialects = kvist::dialects;
using dialects::Dialect;

void check_json(std::string_view text) {
  kvist::JsonDocument document({.most_depth = 80});
  const auto root = document.parse_object(text);
  KVIST_CHECK(root.has_value(), std::string(text));
}

void check_events(std::string_view out) {
  while (!out.empty()) {
    constexpr std::string_view kData = "\ndata: ";
    const std::size_t data = out.find(kData);
    const std::size_t end = out.find("\n\n");
    KVIST_CHECK(out.starts_with("event: ") && data < end && end != std::string_view::npos, "events have one form");
    check_json(out.substr(data + kData.size(), end - data - kData.size()));
    out.remove_prefix(end + 2);
  }
}

void check_request(Dialect dialect, std::string_view text) {
  const auto translation = dialects::translate(dialect, text);
  if (translation) check_json(translation->body);
  const std::string told = dialects::error_body(dialect, 400, text, text);
  // What is no error in OpenAI's form is passed on as it is.
  if (dialect != Dialect::kResponses || told != text) check_json(told);
}

void check_answer(Dialect dialect, std::string_view request, std::string_view text) {
  auto whole = dialects::translate(dialect, request);
  KVIST_CHECK(whole.has_value(), whole.error().message);
  if (const auto answer = whole->answer->whole(text)) check_json(*answer);
  auto streamed = dialects::translate(dialect, request);
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (const auto done = streamed->answer->on_event(text.substr(0, end), out); !done) {
      streamed->answer->on_error(done.error().message, out);
      return check_events(out);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  streamed->answer->end(out);
  check_events(out);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const Dialect dialect : {Dialect::kMessages, Dialect::kCountTokens, Dialect::kResponses})
    check_request(dialect, text);
  check_answer(Dialect::kMessages, R"({"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"}]})", text);
  check_answer(Dialect::kCountTokens, R"({"model":"m","messages":[{"role":"user","content":"a"}]})", text);
  check_answer(Dialect::kResponses, R"({"model":"m","input":"a"})", text);
  return 0;
}
