#include "kvist/jinja/template.h"

#include "kvist/jinja/ast.h"
#include "kvist/jinja/content_loops.h"
#include "kvist/jinja/interpreter.h"
#include "kvist/jinja/parser.h"

namespace kvist::jinja {

Template::Template(std::unique_ptr<const Program> program)
    : program_(std::move(program)), reads_content_items_(loops_over_content(*program_)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

Result<Template> Template::compile(std::string_view source) {
  KVIST_TRY(Program program, parse(source));
  return Template(std::make_unique<const Program>(std::move(program)));
}

Result<MarkedText> Template::render(Meter& meter, const Variables& variables,
                                    std::optional<std::chrono::local_seconds> now) const {
  Interpreter interpreter(*program_, meter, now);
  for (const auto& [name, value] : variables) interpreter.set_global(name, value);
  return interpreter.run();
}

}  // namespace kvist::jinja
