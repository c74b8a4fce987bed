// fuzz: text
// Any text as a chat template, compiled and rendered: the result is an error or a text within its bounds, whose marks
// are in order and cover exactly the bytes of the messages' alphabet.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/jinja/code_points.h"
#include "kvist/jinja/json_value.h"
#include "kvist/jinja/template.h"
#include "kvist/text/jinja_chat_template.h"

namespace {

using kvist::Result;
namespace text = kvist::text;
namespace jinja = kvist::jinja;

constexpr jinja::Limits kLimits{.steps = 20'000, .memory_bytes = 1 << 20, .output_bytes = 1 << 18, .depth = 200};
constexpr std::string_view kMessages =
    R"([{"role": "user", "content": " Ж日 \n"}, {"role": "assistant", "content": "", "tool_calls": [{"id": "Ж",
        "function": {"name": "日", "arguments": {"Ж": [1, 2.5, null, true]}}}]}, {"role": "user", "content": "👩"}])";

// Cyrillic, Chinese and emoji come with the messages; letters of the first 128 characters do not.
void check_marks(const jinja::MarkedText& out, bool only_ascii_source) {
  std::size_t last_end = 0;
  for (const auto& [begin, end] : out.marks()) {
    KVIST_CHECK(begin < end && end <= out.size() && (begin > last_end || begin == 0), "marks are sorted and disjoint");
    last_end = end;
  }
  KVIST_CHECK(jinja::is_valid_utf8(out.bytes()), "the output is UTF-8");
  if (!only_ascii_source) return;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (static_cast<signed char>(out.bytes()[i]) < 0)
      KVIST_CHECK(out.is_marked(i), "what is not ASCII came with the messages");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const Result<jinja::Template> compiled = jinja::Template::compile(source);
  if (!compiled) return 0;
  // An escape can name any character.
  bool only_ascii = source.find('\\') == std::string_view::npos;
  for (const char c : source) only_ascii = only_ascii && static_cast<signed char>(c) >= 0;
  jinja::Meter meter(kLimits);
  const Result<jinja::Value> messages = jinja::value_of_json(meter, kMessages, true);
  KVIST_CHECK(messages.has_value(), "the messages are JSON");
  const Result<jinja::MarkedText> out =
      compiled->render(meter, {{"messages", *messages}, {"add_generation_prompt", true}, {"tools", *messages}},
                       std::chrono::local_seconds(std::chrono::seconds(1'795'271'405)));
  if (out) check_marks(*out, only_ascii);
  return 0;
}
