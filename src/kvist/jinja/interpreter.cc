#include "kvist/jinja/interpreter.h"

#include <fmt/format.h>

#include <algorithm>

#include "kvist/jinja/functions.h"

namespace kvist::jinja {

// A scope. Variables that are set during its lifetime end with it.
class Interpreter::Scope {
 public:
  explicit Scope(Interpreter& interpreter)
      : interpreter_(&interpreter), begin_(interpreter.variables_.size()), outer_(interpreter.scope_) {
    if (interpreter.open_scopes_++ == 0) interpreter.globals_end_ = begin_;
    interpreter.scope_ = begin_;
  }
  ~Scope() {
    clear();
    interpreter_->scope_ = outer_;
    --interpreter_->open_scopes_;
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  void clear() { interpreter_->variables_.resize(begin_); }

 private:
  Interpreter* interpreter_;
  std::size_t begin_;
  std::size_t outer_;
};

Interpreter::~Interpreter() {
  for (const std::shared_ptr<Namespace>& space : namespaces_) space->attributes.clear();
}

void Interpreter::set_global(std::string_view name, const Value& value) {
  for (NameId id = 0; id < program_->names.size(); ++id)
    if (program_->name(id) == name) return set(id, value);
}

Result<MarkedText> Interpreter::run() {
  MarkedText out;
  out_ = whole_ = &out;
  KVIST_TRY_VOID(run(program_->body));
  return out;
}

// -- variables

void Interpreter::set(NameId name, Value value) {
  const auto begin = variables_.begin() + static_cast<std::ptrdiff_t>(scope_);
  const auto found = std::find_if(begin, variables_.end(), [name](const auto& entry) { return entry.first == name; });
  if (found == variables_.end()) {
    variables_.emplace_back(name, std::move(value));
  } else {
    found->second = std::move(value);
  }
}

Value Interpreter::look_up(NameId name) const {
  for (std::size_t i = variables_.size(); i-- > visible_;)
    if (variables_[i].first == name) return variables_[i].second;
  for (std::size_t i = visible_ == 0 ? 0 : globals_end_; i-- > 0;)
    if (variables_[i].first == name) return variables_[i].second;
  if (const Function* function = find_global(program_->name(name))) {
    const bool without_time = function->name == "strftime_now" && !now_;
    if (!without_time) return Callable{.macro = nullptr, .function = function, .host = nullptr};
  }
  return Undefined{&program_->name(name)};
}

Result<void> Interpreter::assign(const std::vector<NameId>& names, bool unpacks, const Value& value) {
  if (!unpacks) {
    set(names.front(), value);
    return {};
  }
  KVIST_TRY(const std::vector<Value> parts, items_of(*meter_, value));
  if (parts.size() != names.size()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} of {} items cannot be put into {} names", kind_of(value), parts.size(), names.size()));
  }
  for (std::size_t i = 0; i < names.size(); ++i) set(names[i], parts[i]);
  return {};
}

Result<void> Interpreter::assign(const SetTarget& target, const Value& value) {
  if (target.attribute.empty()) return assign(target.names, target.unpacks, value);
  const Value object = look_up(target.names.front());
  const auto* space = object.as<std::shared_ptr<Namespace>>();
  if (space == nullptr) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("attributes can be set of a namespace only, not of {}", kind_of(object)));
  }
  auto& attributes = (*space)->attributes;
  KVIST_TRY_VOID(meter_->step(1 + attributes.size() / 8));
  const auto found = std::ranges::find(attributes, target.attribute, [](const auto& entry) { return entry.first; });
  if (found != attributes.end()) {
    found->second = value;
    return {};
  }
  KVIST_TRY_VOID(meter_->allocate(sizeof(*found) + target.attribute.size()));
  attributes.emplace_back(target.attribute, value);
  return {};
}

Result<void> Interpreter::bind_parameters(const Macro& macro, std::vector<Value> positional,
                                          std::vector<std::pair<std::string_view, Value>> keywords) {
  if (positional.size() > macro.parameters.size()) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("the macro takes at most {} arguments, got {}",
                                                         macro.parameters.size(), positional.size()));
  }
  for (const auto& [name, value] : keywords) {
    const auto is_it = [&](const Parameter& parameter) { return program_->name(parameter.name) == name; };
    if (std::ranges::none_of(macro.parameters, is_it))
      return fail(ErrorCode::kInvalidArgument, fmt::format("the macro has no parameter '{}'", name));
  }
  for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
    const Parameter& parameter = macro.parameters[i];
    const auto named =
        std::ranges::find(keywords, program_->name(parameter.name), [](const auto& keyword) { return keyword.first; });
    if (i < positional.size()) {
      set(parameter.name, std::move(positional[i]));
    } else if (named != keywords.end()) {
      set(parameter.name, std::move(named->second));
    } else {
      KVIST_TRY(Value value, eval(parameter.if_absent));
      set(parameter.name, value.is_undefined() ? Value(Undefined{&program_->name(parameter.name)}) : std::move(value));
    }
  }
  return {};
}

Result<Value> Interpreter::call(const Macro& macro, std::vector<Value> positional,
                                std::vector<std::pair<std::string_view, Value>> keywords) {
  const Scope scope(*this);
  const std::size_t visible = std::exchange(visible_, scope_);
  Result<Value> text;
  if (Result<void> bound = bind_parameters(macro, std::move(positional), std::move(keywords)); bound) {
    text = capture(macro.body);
  } else {
    text = std::unexpected(std::move(bound).error());
  }
  visible_ = visible;
  return text;
}

// -- statements

std::unexpected<Error> Interpreter::placed(Error error, Position at) {
  if (!error_is_placed_) error = std::move(error).in(fmt::format("line {}, column {}", at.line, at.column));
  error_is_placed_ = true;
  return std::unexpected(std::move(error));
}

Result<Interpreter::Flow> Interpreter::run(const Block& block) {
  const Meter::Level level(*meter_);
  KVIST_TRY_VOID(meter_->check_depth());
  for (const Statement& statement : block) {
    Result<void> counted = meter_->step();
    if (!counted) return placed(std::move(counted).error(), statement.at);
    Result<Flow> flow = run(statement);
    if (!flow) return placed(std::move(flow).error(), statement.at);
    if (*flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run(const Statement& statement) {
  if (const auto* text = std::get_if<TextStatement>(&statement.node)) {
    KVIST_TRY_VOID(write(Value(text->text)));
  } else if (const auto* output = std::get_if<Output>(&statement.node)) {
    KVIST_TRY(const Value value, eval(output->value));
    KVIST_TRY_VOID(write(value));
  } else if (const auto* branches = std::get_if<If>(&statement.node)) {
    return run(*branches);
  } else if (const auto* loop = std::get_if<For>(&statement.node)) {
    return run(*loop);
  } else if (const auto* assignment = std::get_if<Set>(&statement.node)) {
    KVIST_TRY_VOID(run(*assignment));
  } else if (const auto* macro = std::get_if<MacroDefinition>(&statement.node)) {
    set(macro->macro->name, Callable{.macro = macro->macro.get(), .function = nullptr, .host = nullptr});
  } else if (const auto* filter = std::get_if<FilterBlock>(&statement.node)) {
    KVIST_TRY_VOID(run(*filter));
  } else if (std::holds_alternative<Break>(statement.node)) {
    return Flow::kBreak;
  } else {
    return Flow::kContinue;
  }
  return Flow::kNext;
}

Result<void> Interpreter::write(const Value& value) {
  KVIST_TRY_VOID(meter_->allocate(value.text() == nullptr ? 0 : value.text()->size()));
  KVIST_TRY_VOID(print(*meter_, value, *out_));
  return meter_->check_output(whole_->size());
}

Result<Interpreter::Flow> Interpreter::run(const If& node) {
  for (const auto& [condition, body] : node.branches) {
    KVIST_TRY(const Value value, eval(condition));
    if (is_true(value)) return run(body);
  }
  return run(node.otherwise);
}

// The items of the loop. Its filter sees each item under the loop's names, but not the variable `loop`.
Result<ListPtr> Interpreter::loop_items(const For& node) {
  KVIST_TRY(Value iterable, eval(node.iterable));
  if (iterable.list() == nullptr) {
    KVIST_TRY(std::vector<Value> items, items_of(*meter_, iterable));
    KVIST_TRY(iterable, make_list(*meter_, std::move(items)));
  }
  if (node.filter == nullptr) return *iterable.as<ListPtr>();
  std::vector<Value> kept;
  Scope scope(*this);
  for (const Value& item : iterable.list()->items) {
    scope.clear();
    KVIST_TRY_VOID(meter_->step());
    KVIST_TRY_VOID(assign(node.targets, node.unpacks, item));
    KVIST_TRY(const Value wanted, eval(node.filter));
    if (is_true(wanted)) kept.push_back(item);
  }
  KVIST_TRY(const Value list, make_list(*meter_, std::move(kept)));
  return *list.as<ListPtr>();
}

Result<Interpreter::Flow> Interpreter::run(const For& node) {
  KVIST_TRY(const ListPtr items, loop_items(node));
  if (items->items.empty()) {
    const Scope scope(*this);
    return run(node.otherwise);
  }
  Scope scope(*this);
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    scope.clear();
    KVIST_TRY_VOID(meter_->step());
    set(kLoopName, std::make_shared<const Loop>(Loop{.items = items, .index = i}));
    KVIST_TRY_VOID(assign(node.targets, node.unpacks, items->items[i]));
    KVIST_TRY(const Flow flow, run(node.body));
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

Result<Value> Interpreter::capture(const Block& block) {
  const Scope scope(*this);
  MarkedText text;
  MarkedText* const outer = std::exchange(out_, &text);
  Result<Flow> flow = run(block);
  out_ = outer;
  if (!flow) return std::unexpected(std::move(flow).error());
  return make_text(*meter_, std::move(text));
}

Result<void> Interpreter::run(const Set& node) {
  Value outer = captured_;
  if (node.captures) {
    KVIST_TRY(captured_, capture(node.body));
  }
  KVIST_TRY(const Value value, eval(node.value));
  captured_ = std::move(outer);
  return assign(node.target, value);
}

Result<void> Interpreter::run(const FilterBlock& node) {
  Value outer = captured_;
  KVIST_TRY(captured_, capture(node.body));
  KVIST_TRY(const Value value, eval(node.value));
  captured_ = std::move(outer);
  return write(value);
}

}  // namespace kvist::jinja
