#include "kvist/jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/jinja/expression_parser.h"
#include "kvist/jinja/lexer.h"

namespace kvist::jinja {
namespace {

constexpr std::uint32_t kMaxBlockDepth = 50;

// A macro can be called by another one that precedes it in the source, so their names are collected first.
std::unordered_set<std::string> callable_names(const std::vector<Token>& tokens,
                                               std::span<const std::string> host_functions) {
  std::unordered_set<std::string> names(host_functions.begin(), host_functions.end());
  for (std::size_t i = 0; i + 2 < tokens.size(); ++i) {
    if (tokens[i].kind == TokenKind::kBlockBegin && tokens[i + 1].text == "macro" &&
        tokens[i + 2].kind == TokenKind::kName)
      names.insert(tokens[i + 2].text);
  }
  return names;
}

class Parser {
 public:
  Parser(std::vector<Token> tokens, std::span<const std::string> host_functions)
      : Parser{callable_names(tokens, host_functions), TokenStream(std::move(tokens))} {
  }  // braces guarantee that the names are collected before the tokens are moved

  Result<Program> run() {
    Program program;
    KVIST_TRY(program.body, parse_block({}, {}));
    program.names = names_.take();
    return program;
  }

 private:
  Parser(std::unordered_set<std::string> macros, TokenStream tokens)
      : tokens_(std::move(tokens)), expressions_(tokens_, names_, std::move(macros)) {
    KVIST_CHECK(names_.id("loop") == kLoopName, "loop is the first name");
  }

  using EndNames = std::initializer_list<std::string_view>;
  using Node = decltype(Statement::node);

  // Parses statements up to "{% name", where name is one of `ends`, and reads that tag up to and including the name,
  // which is then in `end_`. Without `ends` it parses up to the end of the template. `opened` is the position of the
  // tag whose end would be missing.
  Result<Block> parse_block(EndNames ends, Position opened) {
    if (++block_depth_ > kMaxBlockDepth)
      return fail_at(opened, fmt::format("more than {} blocks in each other", kMaxBlockDepth));
    Block block;
    while (true) {
      const Token token = tokens_.take();
      if (token.kind == TokenKind::kEnd) {
        if (ends.size() != 0) return fail_at(opened, fmt::format("the block is never closed with {}", *ends.begin()));
        break;
      }
      if (token.kind == TokenKind::kText) {
        block.push_back({token.at, TextStatement{std::make_shared<const MarkedText>(token.text)}});
      } else if (token.kind == TokenKind::kExpressionBegin) {
        KVIST_TRY(ExpressionPtr value, expressions_.parse_tuple(true));
        KVIST_TRY_VOID(tokens_.expect(TokenKind::kExpressionEnd));
        block.push_back({token.at, Output{std::move(value)}});
      } else {
        const Token name = tokens_.peek();
        KVIST_TRY_VOID(tokens_.expect(TokenKind::kName));
        if (std::ranges::find(ends, name.text) != ends.end()) {
          end_ = name.text;
          break;
        }
        KVIST_TRY_VOID(parse_statement(name, block));
      }
    }
    --block_depth_;
    return block;
  }

  Result<void> end_tag() { return tokens_.expect(TokenKind::kBlockEnd); }

  Result<void> parse_statement(const Token& name, Block& block) {
    const auto add = [&](Result<Node> node) -> Result<void> {
      if (!node) return std::unexpected(std::move(node).error());
      block.push_back({name.at, std::move(*node)});
      return {};
    };
    if (name.text == "if") return add(parse_if(name.at));
    if (name.text == "for") return add(parse_for(name.at));
    if (name.text == "set") return add(parse_set(name.at));
    if (name.text == "macro") return add(parse_macro(name.at));
    if (name.text == "filter") return add(parse_filter_block(name.at));
    if (name.text == "generation") return parse_generation(name.at, block);
    if (name.text == "break" || name.text == "continue") {
      if (loops_ == 0) return fail_at(name.at, fmt::format("'{}' outside of a for", name.text));
      KVIST_TRY_VOID(end_tag());
      return add(name.text == "break" ? Node(Break()) : Node(Continue()));
    }
    return fail_at(name.at, fmt::format("unknown tag '{}'; known are if, for, set, macro, filter, generation, break, "
                                        "continue and their ends",
                                        name.text));
  }

  // The tag marks what the model wrote, for training. Rendering writes its content.
  Result<void> parse_generation(Position at, Block& block) {
    KVIST_TRY_VOID(end_tag());
    KVIST_TRY(Block body, parse_block({"endgeneration"}, at));
    KVIST_TRY_VOID(end_tag());
    for (Statement& statement : body) block.push_back(std::move(statement));
    return {};
  }

  Result<Node> parse_if(Position at) {
    If node;
    do {
      KVIST_TRY(ExpressionPtr condition, expressions_.parse_tuple(true));
      KVIST_TRY_VOID(end_tag());
      KVIST_TRY(Block body, parse_block({"endif", "elif", "else"}, at));
      node.branches.emplace_back(std::move(condition), std::move(body));
    } while (end_ == "elif");
    if (end_ == "else") {
      KVIST_TRY_VOID(end_tag());
      KVIST_TRY(node.otherwise, parse_block({"endif"}, at));
    }
    KVIST_TRY_VOID(end_tag());
    return node;
  }

  Result<NameId> parse_target_name() {
    const Token name = tokens_.peek();
    KVIST_TRY_VOID(tokens_.expect(TokenKind::kName));
    for (const std::string_view constant : {"true", "false", "none", "True", "False", "None", "loop"}) {
      if (name.text == constant) return fail_at(name.at, fmt::format("'{}' cannot be set", name.text));
    }
    return names_.id(name.text);
  }

  // "a", "a, b" or "(a, b)"
  Result<void> parse_targets(std::vector<NameId>& names, bool& unpacks) {
    const bool bracket = tokens_.skip_operator("(");
    do {
      if (!names.empty() && !tokens_.at(TokenKind::kName)) break;  // a trailing comma
      KVIST_TRY(const NameId name, parse_target_name());
      names.push_back(name);
      if (tokens_.at_operator(",")) unpacks = true;
    } while (tokens_.skip_operator(","));
    if (bracket) return tokens_.expect_operator(")");
    return {};
  }

  Result<Node> parse_for(Position at) {
    For node;
    KVIST_TRY_VOID(parse_targets(node.targets, node.unpacks));
    if (!tokens_.skip_name("in")) return tokens_.unexpected("'in'");
    KVIST_TRY(node.iterable, expressions_.parse_tuple(false));
    if (tokens_.skip_name("if")) {
      KVIST_TRY(node.filter, expressions_.parse());
    }
    if (tokens_.at_name("recursive")) return fail_at(tokens_.peek().at, "recursive loops are not supported");
    KVIST_TRY_VOID(end_tag());
    ++loops_;
    KVIST_TRY(node.body, parse_block({"endfor", "else"}, at));
    --loops_;
    if (end_ == "else") {
      KVIST_TRY_VOID(end_tag());
      KVIST_TRY(node.otherwise, parse_block({"endfor"}, at));
    }
    KVIST_TRY_VOID(end_tag());
    return node;
  }

  Result<SetTarget> parse_set_target() {
    SetTarget target;
    if (tokens_.at(TokenKind::kName) && tokens_.peek(1).kind == TokenKind::kOperator && tokens_.peek(1).text == ".") {
      target.names.push_back(names_.id(tokens_.take().text));
      tokens_.take();
      target.attribute = tokens_.peek().text;
      KVIST_TRY_VOID(tokens_.expect(TokenKind::kName));
      return target;
    }
    KVIST_TRY_VOID(parse_targets(target.names, target.unpacks));
    return target;
  }

  Result<Node> parse_set(Position at) {
    Set node;
    KVIST_TRY(node.target, parse_set_target());
    if (tokens_.skip_operator("=")) {
      KVIST_TRY(node.value, expressions_.parse_tuple(true));
      KVIST_TRY_VOID(end_tag());
      return node;
    }
    node.captures = true;
    KVIST_TRY(ExpressionPtr captured, expressions_.captured(at));
    KVIST_TRY(node.value, expressions_.parse_filters(std::move(captured)));
    if (!tokens_.at(TokenKind::kBlockEnd)) return tokens_.unexpected("'=', a filter or %}");
    KVIST_TRY_VOID(end_tag());
    KVIST_TRY(node.body, parse_captured_block("endset", at));
    return node;
  }

  // A body with a scope of its own, which break and continue cannot leave.
  Result<Block> parse_captured_block(std::string_view end, Position at) {
    const int loops = std::exchange(loops_, 0);
    KVIST_TRY(Block body, parse_block({end}, at));
    KVIST_TRY_VOID(end_tag());
    loops_ = loops;
    return body;
  }

  Result<Node> parse_filter_block(Position at) {
    // "{% filter a | b %}" applies "| a | b" to the content of the block; its first "|" is not written.
    FilterBlock node;
    KVIST_TRY(ExpressionPtr captured, expressions_.captured(at));
    KVIST_TRY(ExpressionPtr first, expressions_.parse_filter(std::move(captured)));
    KVIST_TRY(node.value, expressions_.parse_filters(std::move(first)));
    KVIST_TRY_VOID(end_tag());
    KVIST_TRY(node.body, parse_captured_block("endfilter", at));
    return node;
  }

  Result<Node> parse_macro(Position at) {
    if (inside_macro_ || loops_ > 0)
      return fail_at(at, "a macro inside of a macro or a for is not supported in chat templates");
    Macro macro;
    KVIST_TRY(macro.name, parse_target_name());
    KVIST_TRY_VOID(tokens_.expect_operator("("));
    while (!tokens_.at_operator(")")) {
      if (!macro.parameters.empty()) KVIST_TRY_VOID(tokens_.expect_operator(","));
      Parameter parameter;
      KVIST_TRY(parameter.name, parse_target_name());
      if (tokens_.skip_operator("=")) {
        KVIST_TRY(parameter.if_absent, expressions_.parse());
      } else if (!macro.parameters.empty() && macro.parameters.back().if_absent != nullptr) {
        return tokens_.unexpected("'=': a parameter without a default stands after one with a default");
      }
      macro.parameters.push_back(std::move(parameter));
    }
    KVIST_TRY_VOID(tokens_.expect_operator(")"));
    KVIST_TRY_VOID(end_tag());
    inside_macro_ = true;
    KVIST_TRY(macro.body, parse_captured_block("endmacro", at));
    inside_macro_ = false;
    return MacroDefinition{std::make_unique<const Macro>(std::move(macro))};
  }

  TokenStream tokens_;
  Names names_;
  ExpressionParser expressions_;
  std::string end_;  // the name that ended the last block
  std::uint32_t block_depth_ = 0;
  int loops_ = 0;  // number of open loops in this scope
  bool inside_macro_ = false;
};

}  // namespace

Result<Program> parse(std::string_view source, std::span<const std::string> host_functions) {
  if (source.size() > kMaxTemplateBytes) {
    return fail(ErrorCode::kTooLarge,
                fmt::format("the template has {} bytes, at most {} are allowed", source.size(), kMaxTemplateBytes));
  }
  KVIST_TRY(std::vector<Token> tokens, tokenize(source));
  return Parser(std::move(tokens), host_functions).run();
}

}  // namespace kvist::jinja
