// Chat templates in Jinja, the language in which models ship them.
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

/// A compiled template. Immutable. Threads: any.
///
/// The language is the part of Jinja that chat templates use, with the settings of the transformers library (README.md
/// lists it). Any other construct is refused by compile(). Values behave as in Jinja: text consists of characters,
/// undefined names are false and print nothing, lists and dictionaries cannot be changed.
class Template {
 public:
  /// `host_functions` are names that the template may call besides its macros; every rendering's variables have a
  /// HostFunction for each. Errors: kInvalidArgument: "line 3, column 14: unknown filter 'foo'; ...".
  [[nodiscard]] static Result<Template> compile(std::string_view source,
                                                std::span<const std::string> host_functions = {});

  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  /// Whether the template has a loop over the content of a message, `{% for item in message.content %}`, and so accepts
  /// contents in parts. The rule is vLLM's.
  [[nodiscard]] bool reads_content_items() const { return reads_content_items_; }

  using Variables = std::vector<std::pair<std::string_view, Value>>;

  /// Renders the text, with the marks of the variables' texts. `meter` bounds the rendering and has counted the
  /// variables. Without `now`, strftime_now() is not defined. Errors: kInvalidArgument with the message that the
  /// template raised, or with the line of what could not be computed; kTooLarge beyond the meter's limits. Requires:
  /// valid UTF-8 in the variables.
  [[nodiscard]] Result<MarkedText> render(Meter& meter, const Variables& variables,
                                          std::optional<std::chrono::local_seconds> now = std::nullopt) const;

 private:
  explicit Template(std::unique_ptr<const Program> program);

  std::unique_ptr<const Program> program_;
  bool reads_content_items_ = false;
};

}  // namespace kvist::jinja
