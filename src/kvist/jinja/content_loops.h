// Does a template go through the parts of a message's content?
#pragma once

#include "kvist/jinja/ast.h"

namespace kvist::jinja {

/// Whether there is a loop over the attribute `content` of a variable of a loop over `messages`, or over a variable
/// that was set to it; filters, tests and slices on the way count as the thing itself, conditions and scopes do not
/// count. The rule, with what it overlooks, is the one by which vLLM chooses between contents as text and in parts: a
/// target that is no plain variable ends the search with a no.
[[nodiscard]] bool loops_over_content(const Program& program);

}  // namespace kvist::jinja
