// Parses a template's expressions: from tokens to a syntax tree.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/jinja/ast.h"
#include "kvist/jinja/lexer.h"

namespace kvist::jinja {

/// The tokens of a template and the position reached in them. The last one is kEnd; the position never goes beyond it.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  [[nodiscard]] const Token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(next_ + ahead, tokens_.size() - 1)];
  }
  Token take() {
    Token token = peek();
    if (next_ + 1 < tokens_.size()) ++next_;
    return token;
  }
  [[nodiscard]] bool at(TokenKind kind) const { return peek().kind == kind; }
  [[nodiscard]] bool at_operator(std::string_view text) const;
  [[nodiscard]] bool at_name(std::string_view text) const;
  /// Skips the next token if it is this operator. Returns whether it was.
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  [[nodiscard]] Result<void> expect_operator(std::string_view text);
  [[nodiscard]] Result<void> expect(TokenKind kind);
  /// "expected X, got Y" at the next token.
  [[nodiscard]] std::unexpected<Error> unexpected(std::string_view expected) const;

 private:
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
};

/// Maps variable names to numbers.
class Names {
 public:
  [[nodiscard]] NameId id(const std::string& name);
  [[nodiscard]] std::vector<std::unique_ptr<const std::string>> take() { return std::move(names_); }

 private:
  std::unordered_map<std::string, NameId> ids_;
  std::vector<std::unique_ptr<const std::string>> names_;
};

/// Parses Jinja's grammar with its precedences: "~" binds tighter than "+", filters and tests bind tighter than both.
/// Unknown filters, tests, methods and functions are refused, as are wrong arguments of known ones.
class ExpressionParser {
 public:
  ExpressionParser(TokenStream& tokens, Names& names, std::unordered_set<std::string> macros)
      : tokens_(&tokens), names_(&names), macros_(std::move(macros)) {}

  using Parsed = Result<ExpressionPtr>;

  [[nodiscard]] Parsed parse();
  /// One expression, or several separated by commas, which are a tuple. Without `conditional`, "if" ends it.
  [[nodiscard]] Parsed parse_tuple(bool conditional);
  /// The filters that follow, "| trim | upper", applied to `input`.
  [[nodiscard]] Parsed parse_filters(ExpressionPtr input);
  /// One filter without its "|".
  [[nodiscard]] Parsed parse_filter(ExpressionPtr input);
  [[nodiscard]] Parsed captured(Position at) const { return make(at, Captured{}); }

 private:
  class Level;

  [[nodiscard]] Parsed make(Position at, decltype(Expression::node) node, std::uint32_t deepest_child = 0) const;

  Parsed parse_conditional();
  Parsed parse_or();
  Parsed parse_and();
  Parsed parse_not();
  Parsed parse_compare();
  Parsed parse_sum();
  Parsed parse_concatenation();
  Parsed parse_product();
  Parsed parse_power();
  Parsed parse_unary(bool with_filters);
  Parsed parse_primary();
  Parsed parse_name();
  Parsed parse_list();
  Parsed parse_dict();
  Parsed parse_postfix(ExpressionPtr object);
  Parsed parse_attribute(ExpressionPtr object);
  Parsed parse_subscript(ExpressionPtr object);
  Parsed parse_filters_and_tests(ExpressionPtr input);
  Parsed parse_test(ExpressionPtr input);
  Parsed parse_named_call(Token name);
  Parsed parse_construction(Position at, bool makes_namespace);
  Parsed parse_format(Position at, ExpressionPtr text);
  [[nodiscard]] bool test_argument_follows() const;

  struct GivenArguments {
    std::vector<ExpressionPtr> positional;
    std::vector<KeywordArgument> keywords;
    std::vector<Position> keyword_places;
  };
  Result<GivenArguments> parse_arguments();
  // Assigns the arguments to the function's parameters.
  Result<std::vector<ExpressionPtr>> bind(const Function& function, Position at, GivenArguments given);
  Result<void> check_named_function(const Function& filter, Position at, const std::vector<ExpressionPtr>& arguments);
  Parsed make_call(Position at, const Function& function, ExpressionPtr input, GivenArguments given);

  TokenStream* tokens_;
  Names* names_;
  std::unordered_set<std::string> macros_;
  std::uint32_t depth_ = 0;  // the depth of the recursion
};

}  // namespace kvist::jinja
