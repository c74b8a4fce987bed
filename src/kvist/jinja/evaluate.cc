// The part of the interpreter that evaluates expressions.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kvist/jinja/functions.h"
#include "kvist/jinja/interpreter.h"
#include "kvist/jinja/operators.h"
#include "kvist/jinja/text_format.h"

namespace kvist::jinja {

Result<Value> Interpreter::eval(const ExpressionPtr& expression) {
  if (expression == nullptr) return Value();
  return eval(*expression);
}

Result<Value> Interpreter::eval(const Expression& expression) {
  if (const auto* literal = std::get_if<Literal>(&expression.node)) return literal->value;
  const Meter::Level level(*meter_);
  Result<Value> value = eval_node(expression);
  if (!value) return placed(std::move(value).error(), expression.at);
  return value;
}

Result<Value> Interpreter::eval_node(const Expression& expression) {
  KVIST_TRY_VOID(meter_->check_depth());
  KVIST_TRY_VOID(meter_->step());
  return std::visit([this](const auto& node) { return eval(node); }, expression.node);
}

Result<Value> Interpreter::eval(const ListLiteral& node) {
  std::vector<Value> items;
  items.reserve(node.items.size());
  for (const ExpressionPtr& item : node.items) {
    KVIST_TRY(Value value, eval(item));
    items.push_back(std::move(value));
  }
  return make_list(*meter_, std::move(items), node.tuple);
}

Result<Value> Interpreter::eval(const DictLiteral& node) {
  std::vector<std::pair<Value, Value>> entries;
  for (const auto& [key_node, value_node] : node.entries) {
    KVIST_TRY(Value key, eval(key_node));
    KVIST_TRY(Value value, eval(value_node));
    entries.emplace_back(std::move(key), std::move(value));
  }
  return make_dict(*meter_, std::move(entries));
}

Result<Value> Interpreter::eval(const Unary& node) {
  KVIST_TRY(Value value, eval(node.operand));
  if (node.op == UnaryOperator::kNot) return Value(!is_true(value));
  if (node.op == UnaryOperator::kMinus) return negated(value);
  KVIST_TRY_VOID(negated(value));  // unary + accepts the same values as unary -
  return value;
}

Result<Value> Interpreter::eval(const Binary& node) {
  KVIST_TRY(Value left, eval(node.left));
  if (node.op == BinaryOperator::kAnd) {
    if (!is_true(left)) return left;
    return eval(node.right);
  }
  if (node.op == BinaryOperator::kOr) {
    if (is_true(left)) return left;
    return eval(node.right);
  }
  KVIST_TRY(const Value right, eval(node.right));
  return binary(*meter_, node.op, left, right);
}

Result<Value> Interpreter::eval(const Compare& node) {
  KVIST_TRY(Value left, eval(node.first));
  for (const auto& [comparison, right_node] : node.rest) {
    KVIST_TRY(Value right, eval(right_node));
    KVIST_TRY(const bool holds, compared(*meter_, comparison, left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Interpreter::eval(const Conditional& node) {
  KVIST_TRY(const Value condition, eval(node.condition));
  return eval(is_true(condition) ? node.then : node.otherwise);
}

Result<Value> Interpreter::eval(const Attribute& node) {
  KVIST_TRY(const Value object, eval(node.object));
  KVIST_TRY(Value value, attribute_of(*meter_, object, node.name));
  if (value.is_undefined()) return Value(Undefined{&node.name});
  return value;
}

Result<Value> Interpreter::eval(const Subscript& node) {
  KVIST_TRY(const Value object, eval(node.object));
  KVIST_TRY(const Value key, eval(node.key));
  return item_of(*meter_, object, key);
}

Result<Value> Interpreter::eval(const Slice& node) {
  KVIST_TRY(const Value object, eval(node.object));
  KVIST_TRY(const Value begin, eval(node.begin));
  KVIST_TRY(const Value end, eval(node.end));
  KVIST_TRY(const Value step, eval(node.step));
  return slice(*meter_, object, begin, end, step);
}

Result<Value> Interpreter::eval(const Call& node) {
  KVIST_TRY(const Value input, eval(node.input));
  std::array<Value, kMaxParameters> arguments;
  for (std::size_t i = 0; i < node.arguments.size(); ++i) {
    KVIST_TRY(arguments[i], eval(node.arguments[i]));
  }
  Result<Value> value = node.function->body(
      {.meter = meter_, .input = &input, .arguments = std::span(arguments.data(), node.arguments.size()), .now = now_});
  // A template's own errors are meant for the user, so they get no position.
  if (!value && node.function->name == "raise_exception") error_is_placed_ = true;
  return value;
}

Result<Value> Interpreter::eval(const Test& node) {
  KVIST_TRY(const Value passed, eval(node.call));
  return Value(is_true(passed) != node.negated);
}

Result<Value> Interpreter::eval(const MacroCall& node) {
  const Value callee = look_up(node.name);
  const auto* callable = callee.as<Callable>();
  if (callable == nullptr || (callable->macro == nullptr && callable->host == nullptr))
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} is no macro here", kind_of(callee)));
  std::vector<Value> positional;
  for (const ExpressionPtr& argument : node.arguments) {
    KVIST_TRY(Value value, eval(argument));
    positional.push_back(std::move(value));
  }
  if (callable->host != nullptr) {
    if (node.keywords.empty()) return callable->host->body(positional);
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} takes its arguments by position", callable->host->name));
  }
  std::vector<std::pair<std::string_view, Value>> keywords;
  for (const KeywordArgument& argument : node.keywords) {
    KVIST_TRY(Value value, eval(argument.value));
    keywords.emplace_back(argument.name, std::move(value));
  }
  return call(*callable->macro, std::move(positional), std::move(keywords));
}

Result<Value> Interpreter::eval(const Format& node) {
  KVIST_TRY(const Value text, eval(node.text));
  if (text.text() == nullptr)
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} has no method 'format'", kind_of(text)));
  std::vector<Value> arguments;
  for (const ExpressionPtr& argument : node.arguments) {
    KVIST_TRY(Value value, eval(argument));
    arguments.push_back(std::move(value));
  }
  TextFormat::Named named;
  for (const KeywordArgument& argument : node.keywords) {
    KVIST_TRY(Value value, eval(argument.value));
    named.emplace_back(argument.name, std::move(value));
  }
  KVIST_TRY(const TextFormat format, TextFormat::read(*meter_, text.text()->bytes()));
  return format.apply(*meter_, *text.text(), arguments, named);
}

Result<Value> Interpreter::eval(const Construction& node) {
  std::vector<std::pair<Value, Value>> entries;
  if (node.base != nullptr) {
    KVIST_TRY(const Value base, eval(node.base));
    if (base.dict() == nullptr)
      return fail(ErrorCode::kInvalidArgument, fmt::format("expected a dictionary, got {}", kind_of(base)));
    entries = base.dict()->entries;
  }
  for (const KeywordArgument& entry : node.entries) {
    KVIST_TRY(Value value, eval(entry.value));
    entries.emplace_back(Value(std::make_shared<const MarkedText>(entry.name)), std::move(value));
  }
  KVIST_TRY(Value dict, make_dict(*meter_, std::move(entries)));
  if (!node.makes_namespace) return dict;
  auto space = std::make_shared<Namespace>();
  for (const auto& [key, value] : dict.dict()->entries) {
    if (key.text() == nullptr)
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("the name of an attribute must be a text, not {}", kind_of(key)));
    space->attributes.emplace_back(key.text()->bytes(), value);
  }
  KVIST_TRY_VOID(meter_->allocate(sizeof(Namespace)));
  namespaces_.push_back(space);
  return Value(std::move(space));
}

}  // namespace kvist::jinja
