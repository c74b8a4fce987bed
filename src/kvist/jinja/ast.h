// A compiled template, as the parser produces it and the interpreter evaluates it. Names of functions are resolved.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kvist/jinja/functions.h"
#include "kvist/jinja/lexer.h"
#include "kvist/jinja/value.h"

namespace kvist::jinja {

/// Number of a variable's name in Program::names.
using NameId = std::uint32_t;
inline constexpr NameId kLoopName = 0;  ///< of "loop", in every program

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct Literal {
  Value value;
};
struct Variable {
  NameId name = 0;
};
/// The text that a filter block or a filtered set has captured.
struct Captured {};
struct ListLiteral {
  std::vector<ExpressionPtr> items;
  bool tuple = false;
};
struct DictLiteral {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
enum class UnaryOperator : std::uint8_t { kNot, kMinus, kPlus };
struct Unary {
  UnaryOperator op = UnaryOperator::kNot;
  ExpressionPtr operand;
};
enum class BinaryOperator : std::uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kConcatenate,
  kAnd,
  kOr,
};
struct Binary {
  BinaryOperator op = BinaryOperator::kAdd;
  ExpressionPtr left;
  ExpressionPtr right;
};
enum class Comparison : std::uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kIn,
  kNotIn,
};
/// a < b <= c: true if every neighbouring pair is in that relation.
struct Compare {
  ExpressionPtr first;
  std::vector<std::pair<Comparison, ExpressionPtr>> rest;
};
struct Conditional {
  ExpressionPtr condition;
  ExpressionPtr then;
  ExpressionPtr otherwise;  ///< null: undefined
};
struct Attribute {
  ExpressionPtr object;
  std::string name;
};
struct Subscript {
  ExpressionPtr object;
  ExpressionPtr key;
};
/// object[begin:end:step]; each may be null.
struct Slice {
  ExpressionPtr object;
  ExpressionPtr begin;
  ExpressionPtr end;
  ExpressionPtr step;
};
/// A filter, a method or a global function (without input).
struct Call {
  const Function* function = nullptr;
  ExpressionPtr input;                   ///< null for a global function
  std::vector<ExpressionPtr> arguments;  ///< one per parameter; null if left out
};
struct Test {
  Call call;
  bool negated = false;
};
struct KeywordArgument {
  std::string name;
  ExpressionPtr value;
};
/// A call of a macro, or of a function of the program that renders.
struct MacroCall {
  NameId name = 0;
  std::vector<ExpressionPtr> arguments;
  std::vector<KeywordArgument> keywords;
};
/// text.format(1, a=2), whose arguments are named by the text.
struct Format {
  ExpressionPtr text;
  std::vector<ExpressionPtr> arguments;
  std::vector<KeywordArgument> keywords;
};
/// namespace(a=1) or dict(a=1), optionally with a dictionary to start from.
struct Construction {
  bool makes_namespace = false;
  ExpressionPtr base;  ///< may be null
  std::vector<KeywordArgument> entries;
};

/// Expressions that nest deeper are refused.
inline constexpr std::uint32_t kMaxExpressionDepth = 100;

struct Expression {
  Position at;
  std::uint32_t depth = 1;  ///< levels of nested expressions, including itself
  std::variant<Literal, Variable, Captured, ListLiteral, DictLiteral, Unary, Binary, Compare, Conditional, Attribute,
               Subscript, Slice, Call, Test, MacroCall, Format, Construction>
      node;
};

struct Statement;
using Block = std::vector<Statement>;

struct TextStatement {
  TextPtr text;
};
struct Output {
  ExpressionPtr value;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Block>> branches;
  Block otherwise;
};
struct For {
  std::vector<NameId> targets;
  bool unpacks = false;  ///< each item is a list of as many items as there are targets
  ExpressionPtr iterable;
  ExpressionPtr filter;  ///< may be null
  Block body;
  Block otherwise;
};
struct SetTarget {
  std::vector<NameId> names;
  bool unpacks = false;
  std::string attribute;  ///< of the namespace names[0]; empty: the variable itself
};
/// Sets a variable to a value, or to the text of a body (then `value` is a chain of filters over Captured).
struct Set {
  SetTarget target;
  ExpressionPtr value;
  bool captures = false;
  Block body;
};
struct Parameter {
  NameId name = 0;
  ExpressionPtr if_absent;  ///< may be null: undefined
};
struct Macro {
  NameId name = 0;
  std::vector<Parameter> parameters;
  Block body;
};
struct MacroDefinition {
  std::unique_ptr<const Macro> macro;
};
struct FilterBlock {
  ExpressionPtr value;  ///< a chain of filters over Captured
  Block body;
};
struct Break {};
struct Continue {};

struct Statement {
  Position at;
  std::variant<TextStatement, Output, If, For, Set, MacroDefinition, FilterBlock, Break, Continue> node;
};

/// A whole template.
struct Program {
  Block body;
  std::vector<std::unique_ptr<const std::string>> names;  ///< of variables, by NameId

  [[nodiscard]] const std::string& name(NameId id) const { return *names[id]; }
};

}  // namespace kvist::jinja
