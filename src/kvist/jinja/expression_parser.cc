#include "kvist/jinja/expression_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace kvist::jinja {
namespace {

constexpr std::uint32_t kMaxBrackets = 50;  // nested; bounds the parser's recursion

std::optional<Value> constant(std::string_view name) {
  if (name == "true" || name == "True") return Value(true);
  if (name == "false" || name == "False") return Value(false);
  if (name == "none" || name == "None") return Value(None());
  return std::nullopt;
}

std::uint32_t depth_of(const ExpressionPtr& child) {
  return child == nullptr ? 0 : child->depth;
}

std::uint32_t depth_of(const std::vector<ExpressionPtr>& children) {
  std::uint32_t deepest = 0;
  for (const ExpressionPtr& child : children) deepest = std::max(deepest, depth_of(child));
  return deepest;
}

}  // namespace

class ExpressionParser::Level {
 public:
  explicit Level(ExpressionParser& parser) : parser_(&parser) { ++parser.depth_; }
  ~Level() { --parser_->depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  ExpressionParser* parser_;
};

ExpressionParser::Parsed ExpressionParser::make(Position at, decltype(Expression::node) node,
                                                std::uint32_t deepest_child) const {
  if (deepest_child >= kMaxExpressionDepth)
    return fail_at(at, fmt::format("the expression nests deeper than {} levels", kMaxExpressionDepth));
  return std::make_unique<const Expression>(Expression{.at = at, .depth = deepest_child + 1, .node = std::move(node)});
}

ExpressionParser::Parsed ExpressionParser::parse() {
  return parse_conditional();
}

ExpressionParser::Parsed ExpressionParser::parse_tuple(bool conditional) {
  const Position at = tokens_->peek().at;
  const auto parse_item = [&] { return conditional ? parse_conditional() : parse_or(); };
  KVIST_TRY(ExpressionPtr first, parse_item());
  if (!tokens_->at_operator(",")) return first;
  std::vector<ExpressionPtr> items;
  items.push_back(std::move(first));
  while (tokens_->skip_operator(",")) {
    const Token& next = tokens_->peek();
    const bool ends = next.kind == TokenKind::kBlockEnd || next.kind == TokenKind::kExpressionEnd ||
                      tokens_->at_operator(")") || tokens_->at_operator("]");
    if (ends) break;
    KVIST_TRY(ExpressionPtr item, parse_item());
    items.push_back(std::move(item));
  }
  const std::uint32_t depth = depth_of(items);
  return make(at, ListLiteral{.items = std::move(items), .tuple = true}, depth);
}

ExpressionParser::Parsed ExpressionParser::parse_conditional() {
  const Level level(*this);
  const Position at = tokens_->peek().at;
  if (depth_ > kMaxBrackets) return fail_at(at, fmt::format("more than {} brackets in each other", kMaxBrackets));
  KVIST_TRY(ExpressionPtr then, parse_or());
  while (tokens_->skip_name("if")) {
    KVIST_TRY(ExpressionPtr condition, parse_or());
    ExpressionPtr otherwise;
    if (tokens_->skip_name("else")) {
      KVIST_TRY(otherwise, parse_conditional());
    }
    const std::uint32_t depth = std::max({depth_of(then), depth_of(condition), depth_of(otherwise)});
    KVIST_TRY(
        then,
        make(at,
             Conditional{.condition = std::move(condition), .then = std::move(then), .otherwise = std::move(otherwise)},
             depth));
  }
  return then;
}

ExpressionParser::Parsed ExpressionParser::parse_or() {
  KVIST_TRY(ExpressionPtr left, parse_and());
  while (tokens_->at_name("or")) {
    const Position at = tokens_->take().at;
    KVIST_TRY(ExpressionPtr right, parse_and());
    const std::uint32_t depth = std::max(depth_of(left), depth_of(right));
    KVIST_TRY(left,
              make(at, Binary{.op = BinaryOperator::kOr, .left = std::move(left), .right = std::move(right)}, depth));
  }
  return left;
}

ExpressionParser::Parsed ExpressionParser::parse_and() {
  KVIST_TRY(ExpressionPtr left, parse_not());
  while (tokens_->at_name("and")) {
    const Position at = tokens_->take().at;
    KVIST_TRY(ExpressionPtr right, parse_not());
    const std::uint32_t depth = std::max(depth_of(left), depth_of(right));
    KVIST_TRY(left,
              make(at, Binary{.op = BinaryOperator::kAnd, .left = std::move(left), .right = std::move(right)}, depth));
  }
  return left;
}

ExpressionParser::Parsed ExpressionParser::parse_not() {
  std::vector<Position> nots;
  while (tokens_->at_name("not")) nots.push_back(tokens_->take().at);
  KVIST_TRY(ExpressionPtr operand, parse_compare());
  for (; !nots.empty(); nots.pop_back()) {
    const std::uint32_t depth = depth_of(operand);
    KVIST_TRY(operand, make(nots.back(), Unary{.op = UnaryOperator::kNot, .operand = std::move(operand)}, depth));
  }
  return operand;
}

ExpressionParser::Parsed ExpressionParser::parse_compare() {
  const Position at = tokens_->peek().at;
  KVIST_TRY(ExpressionPtr first, parse_sum());
  std::uint32_t depth = depth_of(first);
  std::vector<std::pair<Comparison, ExpressionPtr>> rest;
  while (true) {
    std::optional<Comparison> comparison;
    constexpr std::pair<std::string_view, Comparison> kComparisons[] = {
        {"==", Comparison::kEqual},       {"!=", Comparison::kNotEqual}, {"<", Comparison::kLess},
        {"<=", Comparison::kLessOrEqual}, {">", Comparison::kGreater},   {">=", Comparison::kGreaterOrEqual}};
    for (const auto& [text, meaning] : kComparisons)
      if (!comparison && tokens_->skip_operator(text)) comparison = meaning;
    if (!comparison && tokens_->skip_name("in")) comparison = Comparison::kIn;
    if (!comparison && tokens_->at_name("not") && tokens_->peek(1).kind == TokenKind::kName &&
        tokens_->peek(1).text == "in") {
      tokens_->take();
      tokens_->take();
      comparison = Comparison::kNotIn;
    }
    if (!comparison) break;
    KVIST_TRY(ExpressionPtr other, parse_sum());
    depth = std::max(depth, depth_of(other));
    rest.emplace_back(*comparison, std::move(other));
  }
  if (rest.empty()) return first;
  return make(at, Compare{.first = std::move(first), .rest = std::move(rest)}, depth);
}

ExpressionParser::Parsed ExpressionParser::parse_sum() {
  KVIST_TRY(ExpressionPtr left, parse_concatenation());
  while (tokens_->at_operator("+") || tokens_->at_operator("-")) {
    const Token op = tokens_->take();
    KVIST_TRY(ExpressionPtr right, parse_concatenation());
    const std::uint32_t depth = std::max(depth_of(left), depth_of(right));
    KVIST_TRY(left, make(op.at,
                         Binary{.op = op.text == "+" ? BinaryOperator::kAdd : BinaryOperator::kSubtract,
                                .left = std::move(left),
                                .right = std::move(right)},
                         depth));
  }
  return left;
}

ExpressionParser::Parsed ExpressionParser::parse_concatenation() {
  KVIST_TRY(ExpressionPtr left, parse_product());
  while (tokens_->at_operator("~")) {
    const Position at = tokens_->take().at;
    KVIST_TRY(ExpressionPtr right, parse_product());
    const std::uint32_t depth = std::max(depth_of(left), depth_of(right));
    KVIST_TRY(left,
              make(at, Binary{.op = BinaryOperator::kConcatenate, .left = std::move(left), .right = std::move(right)},
                   depth));
  }
  return left;
}

ExpressionParser::Parsed ExpressionParser::parse_product() {
  KVIST_TRY(ExpressionPtr left, parse_power());
  while (true) {
    constexpr std::pair<std::string_view, BinaryOperator> kProducts[] = {{"*", BinaryOperator::kMultiply},
                                                                         {"/", BinaryOperator::kDivide},
                                                                         {"//", BinaryOperator::kFloorDivide},
                                                                         {"%", BinaryOperator::kModulo}};
    const auto* found = std::ranges::find_if(kProducts, [&](const auto& op) { return tokens_->at_operator(op.first); });
    if (found == std::end(kProducts)) return left;
    const Position at = tokens_->take().at;
    KVIST_TRY(ExpressionPtr right, parse_power());
    const std::uint32_t depth = std::max(depth_of(left), depth_of(right));
    KVIST_TRY(left, make(at, Binary{.op = found->second, .left = std::move(left), .right = std::move(right)}, depth));
  }
}

ExpressionParser::Parsed ExpressionParser::parse_power() {
  KVIST_TRY(ExpressionPtr left, parse_unary(true));
  while (tokens_->at_operator("**")) {
    const Position at = tokens_->take().at;
    KVIST_TRY(ExpressionPtr right, parse_unary(true));
    const std::uint32_t depth = std::max(depth_of(left), depth_of(right));
    KVIST_TRY(left, make(at, Binary{.op = BinaryOperator::kPower, .left = std::move(left), .right = std::move(right)},
                         depth));
  }
  return left;
}

ExpressionParser::Parsed ExpressionParser::parse_unary(bool with_filters) {
  std::vector<Token> signs;
  while (tokens_->at_operator("-") || tokens_->at_operator("+")) {
    if (signs.size() == kMaxExpressionDepth) return tokens_->unexpected("a number, not one more sign");
    signs.push_back(tokens_->take());
  }
  KVIST_TRY(ExpressionPtr primary, parse_primary());
  KVIST_TRY(ExpressionPtr operand, parse_postfix(std::move(primary)));
  for (; !signs.empty(); signs.pop_back()) {
    const std::uint32_t depth = depth_of(operand);
    const UnaryOperator op = signs.back().text == "-" ? UnaryOperator::kMinus : UnaryOperator::kPlus;
    KVIST_TRY(operand, make(signs.back().at, Unary{.op = op, .operand = std::move(operand)}, depth));
  }
  if (!with_filters) return operand;
  return parse_filters_and_tests(std::move(operand));
}

ExpressionParser::Parsed ExpressionParser::parse_primary() {
  const Token token = tokens_->peek();
  switch (token.kind) {
    case TokenKind::kName:
      return parse_name();
    case TokenKind::kString: {
      std::string text;
      while (tokens_->at(TokenKind::kString)) text += tokens_->take().text;  // adjacent strings are one string
      return make(token.at, Literal{Value(std::make_shared<const MarkedText>(std::move(text)))});
    }
    case TokenKind::kInteger: {
      tokens_->take();
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
      if (error != std::errc()) return fail_at(token.at, "the integer does not fit in 64 bits");
      return make(token.at, Literal{Value(number)});
    }
    case TokenKind::kFloat: {
      tokens_->take();
      double number = 0;
      const auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
      if (error != std::errc()) return fail_at(token.at, "the number is too large or too small");
      return make(token.at, Literal{Value(number)});
    }
    case TokenKind::kOperator:
      if (token.text == "[") return parse_list();
      if (token.text == "{") return parse_dict();
      if (tokens_->skip_operator("(")) {
        if (tokens_->skip_operator(")")) return make(token.at, ListLiteral{.items = {}, .tuple = true});
        KVIST_TRY(ExpressionPtr inner, parse_tuple(true));
        KVIST_TRY_VOID(tokens_->expect_operator(")"));
        return inner;
      }
      break;
    case TokenKind::kText:
    case TokenKind::kBlockBegin:
    case TokenKind::kBlockEnd:
    case TokenKind::kExpressionBegin:
    case TokenKind::kExpressionEnd:
    case TokenKind::kEnd:
      break;
  }
  return tokens_->unexpected("an expression");
}

ExpressionParser::Parsed ExpressionParser::parse_name() {
  const Token name = tokens_->take();
  if (const std::optional<Value> value = constant(name.text)) return make(name.at, Literal{*value});
  if (tokens_->at_operator("(")) return parse_named_call(name);
  for (const std::string_view keyword : {"if", "else", "and", "or", "not", "in", "is", "for"})
    if (name.text == keyword) return fail_at(name.at, fmt::format("expected an expression, got '{}'", name.text));
  for (const std::string_view unknown : {"varargs", "kwargs", "caller", "self", "super"}) {
    if (name.text == unknown)
      return fail_at(name.at, fmt::format("'{}' is not supported in chat templates", name.text));
  }
  return make(name.at, Variable{names_->id(name.text)});
}

ExpressionParser::Parsed ExpressionParser::parse_list() {
  const Position at = tokens_->take().at;
  std::vector<ExpressionPtr> items;
  while (!tokens_->at_operator("]")) {
    if (!items.empty()) KVIST_TRY_VOID(tokens_->expect_operator(","));
    if (tokens_->at_operator("]")) break;
    KVIST_TRY(ExpressionPtr item, parse_conditional());
    items.push_back(std::move(item));
  }
  KVIST_TRY_VOID(tokens_->expect_operator("]"));
  const std::uint32_t depth = depth_of(items);
  return make(at, ListLiteral{.items = std::move(items), .tuple = false}, depth);
}

ExpressionParser::Parsed ExpressionParser::parse_dict() {
  const Position at = tokens_->take().at;
  DictLiteral dict;
  std::uint32_t depth = 0;
  while (!tokens_->at_operator("}")) {
    if (!dict.entries.empty()) KVIST_TRY_VOID(tokens_->expect_operator(","));
    if (tokens_->at_operator("}")) break;
    KVIST_TRY(ExpressionPtr key, parse_conditional());
    KVIST_TRY_VOID(tokens_->expect_operator(":"));
    KVIST_TRY(ExpressionPtr value, parse_conditional());
    depth = std::max({depth, depth_of(key), depth_of(value)});
    dict.entries.emplace_back(std::move(key), std::move(value));
  }
  KVIST_TRY_VOID(tokens_->expect_operator("}"));
  return make(at, std::move(dict), depth);
}

ExpressionParser::Parsed ExpressionParser::parse_postfix(ExpressionPtr object) {
  while (true) {
    if (tokens_->at_operator(".")) {
      KVIST_TRY(object, parse_attribute(std::move(object)));
    } else if (tokens_->at_operator("[")) {
      KVIST_TRY(object, parse_subscript(std::move(object)));
    } else if (tokens_->at_operator("(")) {
      return fail_at(tokens_->peek().at, "only functions, macros and methods can be called, by their name");
    } else {
      return object;
    }
  }
}

ExpressionParser::Parsed ExpressionParser::parse_attribute(ExpressionPtr object) {
  tokens_->take();
  const Token name = tokens_->take();
  if (name.kind == TokenKind::kInteger) {
    const std::uint32_t depth = depth_of(object);
    std::int64_t index = 0;
    if (std::from_chars(name.text.data(), name.text.data() + name.text.size(), index).ec != std::errc())
      return fail_at(name.at, "the integer does not fit in 64 bits");
    KVIST_TRY(ExpressionPtr key, make(name.at, Literal{Value(index)}));
    return make(name.at, Subscript{.object = std::move(object), .key = std::move(key)}, depth);
  }
  if (name.kind != TokenKind::kName) return fail_at(name.at, "expected a name or an index after '.'");
  if (tokens_->at_operator("(")) {
    if (name.text == "format") return parse_format(name.at, std::move(object));
    const Function* method = find_method(name.text);
    if (method == nullptr)
      return fail_at(name.at,
                     fmt::format("unknown method '{}'; known are {}", name.text, known_names(FunctionKind::kMethod)));
    KVIST_TRY(GivenArguments given, parse_arguments());
    return make_call(name.at, *method, std::move(object), std::move(given));
  }
  const std::uint32_t depth = depth_of(object);
  return make(name.at, Attribute{.object = std::move(object), .name = name.text}, depth);
}

ExpressionParser::Parsed ExpressionParser::parse_subscript(ExpressionPtr object) {
  const Position at = tokens_->take().at;
  ExpressionPtr parts[3];
  std::size_t part = 0;
  bool slice = false;
  while (!tokens_->at_operator("]")) {
    if (tokens_->at_operator(":")) {
      slice = true;
      if (++part == std::size(parts)) return tokens_->unexpected("']'");
      tokens_->take();
      continue;
    }
    if (parts[part] != nullptr) return tokens_->unexpected("']'");
    KVIST_TRY(parts[part], parse_conditional());
  }
  KVIST_TRY_VOID(tokens_->expect_operator("]"));
  if (!slice && parts[0] == nullptr) return fail_at(at, "expected an index or a slice in []");
  const std::uint32_t depth = std::max({depth_of(object), depth_of(parts[0]), depth_of(parts[1]), depth_of(parts[2])});
  if (!slice) return make(at, Subscript{.object = std::move(object), .key = std::move(parts[0])}, depth);
  return make(at,
              Slice{.object = std::move(object),
                    .begin = std::move(parts[0]),
                    .end = std::move(parts[1]),
                    .step = std::move(parts[2])},
              depth);
}

}  // namespace kvist::jinja
