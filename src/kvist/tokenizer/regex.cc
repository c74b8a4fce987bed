#include "kvist/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <cstdint>

#include "kvist/base/check.h"

namespace kvist::tokenizer {
namespace {

constexpr std::size_t kMostPatternBytes = 16U << 10U;
// The bound on backtracking steps for one match. Real expressions of tokenizers need a few per character of the match.
constexpr std::uint32_t kMatchLimit = 10'000'000;
// The bound on steps per byte for searching a whole probe. Steps are counted before each item of the expression,
// without the optimizations of the real search. The expressions of Llama, Qwen and GPT need up to 12.
constexpr std::size_t kMostProbeStepsPerByte = 100;
constexpr std::uint32_t kHeapLimitKib = 64U << 10U;
constexpr std::size_t kJitStackStart = 32U << 10U;
constexpr std::size_t kJitStackMost = 8U << 20U;
constexpr std::size_t kProbeBytes = 2'048;

// Texts that make expressions backtrack: long runs of one kind that end with another. All of ASCII follows at the end,
// so that no search stops early because a required character is missing.
constexpr std::array<std::string_view, 9> kProbes = {" ", "\n", "a", "1", "!", " \n", "a ", "\t ", "aA1"};

template <auto function>
struct Deleter {
  template <class T>
  void operator()(T* pointer) const {
    function(pointer);
  }
};

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 128> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

PCRE2_SPTR bytes_of(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

using CodeOwner = std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>>;

Result<CodeOwner> compile_pcre2(std::string_view pattern, std::uint32_t more_options) {
  const std::unique_ptr<pcre2_compile_context, Deleter<pcre2_compile_context_free>> context{
      pcre2_compile_context_create(nullptr)};
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  CodeOwner code(pcre2_compile(bytes_of(pattern), pattern.size(),
                               PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | more_options, &error,
                               &offset, context.get()));
  if (code) return code;
  return fail(ErrorCode::kCorrupt,
              fmt::format("regular expression: {} (at byte {} of its translation)", message_of(error), offset));
}

extern "C" int count_step(pcre2_callout_block* /*block*/, void* steps_left) {
  return --*static_cast<std::int64_t*>(steps_left) < 0 ? PCRE2_ERROR_CALLOUT : 0;
}

/// Whether finding all matches in some hostile texts takes time linear in their length. Counts steps instead of using a
/// clock.
Result<bool> is_linear(std::string_view pattern) {
  KVIST_TRY(const CodeOwner code, compile_pcre2(pattern, PCRE2_AUTO_CALLOUT));
  const std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>> data{pcre2_match_data_create(1, nullptr)};
  const std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>> context{
      pcre2_match_context_create(nullptr)};
  pcre2_set_heap_limit(context.get(), kHeapLimitKib);
  for (const std::string_view probe : kProbes) {
    std::string text;
    while (text.size() < kProbeBytes) text += probe;
    for (char c = 1; c < 0x7F; ++c) text += c;
    auto steps_left = static_cast<std::int64_t>(text.size() * kMostProbeStepsPerByte);
    pcre2_set_callout(context.get(), &count_step, &steps_left);
    for (std::size_t at = 0; at < text.size();) {
      const int found =
          pcre2_match(code.get(), bytes_of(text), text.size(), at, PCRE2_NO_UTF_CHECK, data.get(), context.get());
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found < 0) return false;
      const PCRE2_SIZE end = pcre2_get_ovector_pointer(data.get())[1];
      at = end > at ? end : at + 1;
    }
  }
  return true;
}

}  // namespace

struct Regex::Code {
  std::string source;
  CodeOwner code;
  bool jit = false;
};

struct RegexMemory::Impl {
  std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>> data{pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>> context{pcre2_match_context_create(nullptr)};
  std::unique_ptr<pcre2_jit_stack, Deleter<pcre2_jit_stack_free>> stack{
      pcre2_jit_stack_create(kJitStackStart, kJitStackMost, nullptr)};
};

RegexMemory::RegexMemory() : impl_(std::make_unique<Impl>()) {
  KVIST_CHECK(impl_->data && impl_->context && impl_->stack, "no memory for regular expressions");
  pcre2_set_match_limit(impl_->context.get(), kMatchLimit);
  pcre2_set_heap_limit(impl_->context.get(), kHeapLimitKib);
  pcre2_jit_stack_assign(impl_->context.get(), nullptr, impl_->stack.get());
}
RegexMemory::~RegexMemory() = default;

Result<Regex> Regex::compile(std::string_view pattern) {
  if (pattern.empty()) return fail(ErrorCode::kUnsupported, "an empty regular expression");
  if (pattern.size() > kMostPatternBytes) {
    return fail(ErrorCode::kTooLarge,
                fmt::format("a regular expression of {} bytes, more than {}", pattern.size(), kMostPatternBytes));
  }
  KVIST_TRY(const std::string translated, translate_to_pcre2(pattern));
  auto code = std::make_shared<Code>();
  code->source = pattern;
  KVIST_TRY(code->code, compile_pcre2(translated, 0));
  KVIST_TRY(const bool linear, is_linear(translated));
  if (!linear) {
    return fail(ErrorCode::kUnsupported,
                "a regular expression whose search through short texts takes many steps per byte (backtracking)");
  }
  code->jit = pcre2_jit_compile(code->code.get(), PCRE2_JIT_COMPLETE) == 0;
  return Regex(std::move(code));
}

const std::string& Regex::source() const {
  return code_->source;
}

Regex::Outcome Regex::find(std::string_view text, std::size_t from, RegexMemory& memory, Match& match) const {
  pcre2_match_data* data = memory.impl_->data.get();
  const auto search = code_->jit ? pcre2_jit_match : pcre2_match;
  const int found = search(code_->code.get(), bytes_of(text), text.size(), from, PCRE2_NO_UTF_CHECK, data,
                           memory.impl_->context.get());
  if (found == PCRE2_ERROR_NOMATCH) return Outcome::kNone;
  if (found < 0) return Outcome::kLimit;
  const PCRE2_SIZE* const place = pcre2_get_ovector_pointer(data);
  match = {place[0], place[1]};
  return Outcome::kFound;
}

}  // namespace kvist::tokenizer
