// The part of the expression parser that binds filters, tests, methods and functions to their arguments.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kvist/jinja/expression_parser.h"
#include "kvist/jinja/text_format.h"

namespace kvist::jinja {
namespace {

std::uint32_t deepest_of(const std::vector<ExpressionPtr>& children) {
  std::uint32_t deepest = 0;
  for (const ExpressionPtr& child : children)
    if (child != nullptr) deepest = std::max(deepest, child->depth);
  return deepest;
}

std::uint32_t deepest_of(const std::vector<KeywordArgument>& children) {
  std::uint32_t deepest = 0;
  for (const KeywordArgument& child : children) deepest = std::max(deepest, child.value->depth);
  return deepest;
}

}  // namespace

ExpressionParser::Parsed ExpressionParser::parse_filters(ExpressionPtr input) {
  while (tokens_->skip_operator("|")) {
    KVIST_TRY(input, parse_filter(std::move(input)));
  }
  return input;
}

ExpressionParser::Parsed ExpressionParser::parse_filters_and_tests(ExpressionPtr input) {
  while (true) {
    if (tokens_->skip_operator("|")) {
      KVIST_TRY(input, parse_filter(std::move(input)));
    } else if (tokens_->at_name("is")) {
      KVIST_TRY(input, parse_test(std::move(input)));
    } else {
      return input;
    }
  }
}

ExpressionParser::Parsed ExpressionParser::parse_filter(ExpressionPtr input) {
  const Token name = tokens_->peek();
  KVIST_TRY_VOID(tokens_->expect(TokenKind::kName));
  const Function* filter = find_filter(name.text);
  if (filter == nullptr)
    return fail_at(name.at,
                   fmt::format("unknown filter '{}'; known are {}", name.text, known_names(FunctionKind::kFilter)));
  GivenArguments given;
  if (tokens_->at_operator("(")) {
    KVIST_TRY(given, parse_arguments());
  }
  return make_call(name.at, *filter, std::move(input), std::move(given));
}

bool ExpressionParser::test_argument_follows() const {
  const Token& next = tokens_->peek();
  if (next.kind == TokenKind::kString || next.kind == TokenKind::kInteger || next.kind == TokenKind::kFloat)
    return true;
  if (next.kind == TokenKind::kOperator) return next.text == "[" || next.text == "{";
  if (next.kind != TokenKind::kName) return false;
  return next.text != "else" && next.text != "or" && next.text != "and" && next.text != "if" && next.text != "is" &&
         next.text != "in" && next.text != "not" && next.text != "recursive";
}

ExpressionParser::Parsed ExpressionParser::parse_test(ExpressionPtr input) {
  tokens_->take();
  const bool negated = tokens_->skip_name("not");
  const Token name = tokens_->peek();
  KVIST_TRY_VOID(tokens_->expect(TokenKind::kName));
  const Function* test = find_test(name.text);
  if (test == nullptr)
    return fail_at(name.at,
                   fmt::format("unknown test '{}'; known are {}", name.text, known_names(FunctionKind::kTest)));
  GivenArguments given;
  if (tokens_->at_operator("(")) {
    KVIST_TRY(given, parse_arguments());
  } else if (test_argument_follows()) {
    KVIST_TRY(ExpressionPtr primary, parse_primary());
    KVIST_TRY(ExpressionPtr argument, parse_postfix(std::move(primary)));
    given.positional.push_back(std::move(argument));
  }
  KVIST_TRY(std::vector<ExpressionPtr> arguments, bind(*test, name.at, std::move(given)));
  const std::uint32_t depth = std::max(input->depth, deepest_of(arguments));
  return make(name.at,
              Test{.call = {.function = test, .input = std::move(input), .arguments = std::move(arguments)},
                   .negated = negated},
              depth);
}

ExpressionParser::Parsed ExpressionParser::parse_named_call(Token name) {
  if (name.text == "namespace" || name.text == "dict") return parse_construction(name.at, name.text == "namespace");
  if (macros_.contains(name.text)) {
    KVIST_TRY(GivenArguments given, parse_arguments());
    const std::uint32_t depth = std::max(deepest_of(given.positional), deepest_of(given.keywords));
    return make(name.at,
                MacroCall{.name = names_->id(name.text),
                          .arguments = std::move(given.positional),
                          .keywords = std::move(given.keywords)},
                depth);
  }
  const Function* function = find_global(name.text);
  if (function == nullptr) {
    return fail_at(name.at, fmt::format("unknown function '{}'; known are the template's macros, dict, namespace, {}",
                                        name.text, known_names(FunctionKind::kGlobal)));
  }
  KVIST_TRY(GivenArguments given, parse_arguments());
  return make_call(name.at, *function, nullptr, std::move(given));
}

ExpressionParser::Parsed ExpressionParser::parse_construction(Position at, bool makes_namespace) {
  KVIST_TRY(GivenArguments given, parse_arguments());
  if (given.positional.size() > 1)
    return fail_at(at, "expected name=value pairs, and before them at most one dictionary");
  ExpressionPtr base = given.positional.empty() ? nullptr : std::move(given.positional.front());
  const std::uint32_t depth = std::max(base == nullptr ? 0 : base->depth, deepest_of(given.keywords));
  return make(
      at,
      Construction{.makes_namespace = makes_namespace, .base = std::move(base), .entries = std::move(given.keywords)},
      depth);
}

// A text that stands in the template is checked here, any other when it is formatted.
ExpressionParser::Parsed ExpressionParser::parse_format(Position at, ExpressionPtr text) {
  KVIST_TRY(GivenArguments given, parse_arguments());
  const auto* literal = std::get_if<Literal>(&text->node);
  if (literal != nullptr && literal->value.text() != nullptr) {
    const Result<TextFormat> format = TextFormat::read(literal->value.text()->bytes());
    if (!format) return fail_at(at, format.error().message);
    if (format->positions() > given.positional.size())
      return fail_at(at, fmt::format("format: {} fields, but {} arguments by position", format->positions(),
                                     given.positional.size()));
    for (const std::string_view name : format->names())
      if (std::ranges::find(given.keywords, name, &KeywordArgument::name) == given.keywords.end())
        return fail_at(at, fmt::format("format: there is no argument '{}'", name));
  }
  const std::uint32_t depth = std::max({text->depth, deepest_of(given.positional), deepest_of(given.keywords)});
  return make(
      at,
      Format{.text = std::move(text), .arguments = std::move(given.positional), .keywords = std::move(given.keywords)},
      depth);
}

Result<ExpressionParser::GivenArguments> ExpressionParser::parse_arguments() {
  KVIST_TRY_VOID(tokens_->expect_operator("("));
  GivenArguments given;
  bool first = true;
  while (!tokens_->at_operator(")")) {
    if (!first) KVIST_TRY_VOID(tokens_->expect_operator(","));
    first = false;
    if (tokens_->at_operator(")")) break;
    if (tokens_->at_operator("*") || tokens_->at_operator("**"))
      return fail_at(tokens_->peek().at, "unpacking of arguments with * or ** is not supported in chat templates");
    const Token next = tokens_->peek();
    if (next.kind == TokenKind::kName && tokens_->peek(1).kind == TokenKind::kOperator &&
        tokens_->peek(1).text == "=") {
      tokens_->take();
      tokens_->take();
      KVIST_TRY(ExpressionPtr value, parse_conditional());
      given.keywords.push_back({.name = next.text, .value = std::move(value)});
      given.keyword_places.push_back(next.at);
      continue;
    }
    if (!given.keywords.empty()) return fail_at(next.at, "an argument without a name stands after one with a name");
    KVIST_TRY(ExpressionPtr value, parse_conditional());
    given.positional.push_back(std::move(value));
  }
  KVIST_TRY_VOID(tokens_->expect_operator(")"));
  return given;
}

Result<std::vector<ExpressionPtr>> ExpressionParser::bind(const Function& function, Position at, GivenArguments given) {
  const std::size_t parameters = function.parameter_count();
  if (given.positional.size() > parameters) {
    return fail_at(
        at, fmt::format("'{}' takes at most {} arguments, got {}", function.name, parameters, given.positional.size()));
  }
  std::vector<ExpressionPtr> arguments = std::move(given.positional);
  arguments.resize(parameters);
  for (std::size_t i = 0; i < given.keywords.size(); ++i) {
    KeywordArgument& keyword = given.keywords[i];
    const auto* found = std::ranges::find(function.parameters, keyword.name);
    const auto index = static_cast<std::size_t>(found - function.parameters.begin());
    if (index >= parameters)
      return fail_at(given.keyword_places[i], fmt::format("'{}' has no argument '{}'", function.name, keyword.name));
    if (arguments[index] != nullptr)
      return fail_at(given.keyword_places[i], fmt::format("the argument '{}' is given twice", keyword.name));
    arguments[index] = std::move(keyword.value);
  }
  for (std::size_t i = 0; i < function.required; ++i) {
    if (arguments[i] == nullptr)
      return fail_at(at, fmt::format("'{}' needs the argument '{}'", function.name, function.parameters[i]));
  }
  KVIST_TRY_VOID(check_named_function(function, at, arguments));
  return arguments;
}

Result<void> ExpressionParser::check_named_function(const Function& filter, Position at,
                                                    const std::vector<ExpressionPtr>& arguments) {
  const std::optional<NamedParameter> named = function_parameter(filter);
  if (!named || arguments[named->index] == nullptr) return {};
  const auto* literal = std::get_if<Literal>(&arguments[named->index]->node);
  const MarkedText* name = literal == nullptr ? nullptr : literal->value.text();
  const bool is_filter = named->kind == FunctionKind::kFilter;
  if (name == nullptr)
    return fail_at(at,
                   fmt::format("'{}' needs the name of a {} as a string", filter.name, is_filter ? "filter" : "test"));
  const std::string text(name->bytes());
  if ((is_filter ? find_filter(text) : find_test(text)) != nullptr) return {};
  return fail_at(
      at, fmt::format("unknown {} '{}'; known are {}", is_filter ? "filter" : "test", text, known_names(named->kind)));
}

ExpressionParser::Parsed ExpressionParser::make_call(Position at, const Function& function, ExpressionPtr input,
                                                     GivenArguments given) {
  KVIST_TRY(std::vector<ExpressionPtr> arguments, bind(function, at, std::move(given)));
  const std::uint32_t depth = std::max(input == nullptr ? 0 : input->depth, deepest_of(arguments));
  return make(at, Call{.function = &function, .input = std::move(input), .arguments = std::move(arguments)}, depth);
}

}  // namespace kvist::jinja
