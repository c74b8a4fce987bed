// Evaluates a compiled template.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/jinja/ast.h"
#include "kvist/jinja/meter.h"
#include "kvist/jinja/value.h"

namespace kvist::jinja {

/// One rendering of one program. Scopes are Jinja's: variables set in a for, a macro or a capturing block end with it,
/// those set in an if do not. A macro sees its own variables and those of the template's top level.
class Interpreter {
 public:
  Interpreter(const Program& program, Meter& meter, std::optional<std::chrono::local_seconds> now)
      : program_(&program), meter_(&meter), now_(now) {}
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  void set_global(std::string_view name, const Value& value);
  [[nodiscard]] Result<MarkedText> run();

 private:
  enum class Flow : std::uint8_t { kNext, kBreak, kContinue };
  class Scope;

  // -- variables
  void set(NameId name, Value value);
  [[nodiscard]] Value look_up(NameId name) const;
  Result<void> assign(const std::vector<NameId>& names, bool unpacks, const Value& value);
  Result<void> assign(const SetTarget& target, const Value& value);

  // -- statements
  Result<Flow> run(const Block& block);
  Result<Flow> run(const Statement& statement);
  Result<Flow> run(const If& node);
  Result<Flow> run(const For& node);
  Result<ListPtr> loop_items(const For& node);
  Result<void> run(const Set& node);
  Result<void> run(const FilterBlock& node);
  Result<void> write(const Value& value);
  // Runs the block in a scope of its own and returns its output.
  Result<Value> capture(const Block& block);

  // -- expressions
  Result<Value> eval(const Expression& expression);
  Result<Value> eval(const ExpressionPtr& expression);  // null: undefined
  Result<Value> eval_node(const Expression& expression);
  Result<Value> eval(const Literal& node) { return node.value; }
  Result<Value> eval(const Variable& node) { return look_up(node.name); }
  Result<Value> eval(const Captured&) { return captured_; }
  Result<Value> eval(const ListLiteral& node);
  Result<Value> eval(const DictLiteral& node);
  Result<Value> eval(const Unary& node);
  Result<Value> eval(const Binary& node);
  Result<Value> eval(const Compare& node);
  Result<Value> eval(const Conditional& node);
  Result<Value> eval(const Attribute& node);
  Result<Value> eval(const Subscript& node);
  Result<Value> eval(const Slice& node);
  Result<Value> eval(const Call& node);
  Result<Value> eval(const Test& node);
  Result<Value> eval(const MacroCall& node);
  Result<Value> eval(const Format& node);
  Result<Value> eval(const Construction& node);
  Result<Value> call(const Macro& macro, std::vector<Value> positional,
                     std::vector<std::pair<std::string_view, Value>> keywords);
  Result<void> bind_parameters(const Macro& macro, std::vector<Value> positional,
                               std::vector<std::pair<std::string_view, Value>> keywords);

  // Prepends "line 3, column 5: " to an error that has no position yet.
  [[nodiscard]] std::unexpected<Error> placed(Error error, Position at);

  const Program* program_;
  Meter* meter_;
  std::optional<std::chrono::local_seconds> now_;
  std::vector<std::pair<NameId, Value>> variables_;  // the variables of all open scopes, the innermost last
  std::size_t open_scopes_ = 0;                      // not counting the template's top level
  std::size_t globals_end_ = 0;                      // index at which the first of these scopes begins
  std::size_t visible_ =
      0;  // index from which on the running macro sees variables, besides the globals; 0 outside of macros
  std::size_t scope_ = 0;  // index at which the innermost scope begins
  MarkedText* out_ = nullptr;
  MarkedText* whole_ = nullptr;  // the rendering's own output
  Value captured_;
  bool error_is_placed_ = false;
  std::vector<std::shared_ptr<Namespace>>
      namespaces_;  // may refer to each other in cycles, so they are emptied at the end
};

}  // namespace kvist::jinja
