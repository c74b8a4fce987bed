// Chat templates in Jinja, the language that published models ship them in.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/jinja/marked_text.h"
#include "kvist/jinja/meter.h"
#include "kvist/jinja/value.h"

namespace kvist::jinja {

struct Program;

/// A compiled template. Immutable; any thread may render it.
///
/// The language is the part of Jinja that chat templates use, as the transformers library sets it up (README.md lists
/// it). A construct outside of it is refused when it is compiled. A rendering computes as Jinja does: text is in
/// characters, undefined names are false and print nothing, lists and dictionaries cannot be changed.
class Template {
 public:
  /// `host_functions`: names that the template may call though it has no such macros; a rendering's variables have a
  /// HostFunction for each. kInvalidArgument: "line 3, column 14: unknown filter 'foo'; ...".
  [[nodiscard]] static Result<Template> compile(std::string_view source,
                                                std::span<const std::string> host_functions = {});

  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  /// It has a loop over the content of a message, `{% for item in message.content %}`, so that it takes contents in
  /// parts. What counts as one is what vLLM takes for one.
  [[nodiscard]] bool reads_content_items() const { return reads_content_items_; }

  using Variables = std::vector<std::pair<std::string_view, Value>>;

  /// The text, with the marks of the variables' texts. `meter` bounds it, with what the variables took. Without `now`
  /// strftime_now() is not defined. kInvalidArgument: what the template itself raised, in its words, or what it could
  /// not compute, with the line; kTooLarge: beyond the meter's limits. Requires valid UTF-8 in the variables.
  [[nodiscard]] Result<MarkedText> render(Meter& meter, const Variables& variables,
                                          std::optional<std::chrono::local_seconds> now = std::nullopt) const;

 private:
  explicit Template(std::unique_ptr<const Program> program);

  std::unique_ptr<const Program> program_;
  bool reads_content_items_ = false;
};

}  // namespace kvist::jinja
