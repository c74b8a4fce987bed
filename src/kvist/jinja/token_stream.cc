#include <fmt/format.h>

#include "kvist/jinja/expression_parser.h"

namespace kvist::jinja {
namespace {

std::string spelled(const Token& token) {
  switch (token.kind) {
    case TokenKind::kText:
      return "text outside of a tag";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kEnd:
      return "the template's end";
    case TokenKind::kBlockBegin:
    case TokenKind::kBlockEnd:
    case TokenKind::kExpressionBegin:
    case TokenKind::kExpressionEnd:
    case TokenKind::kName:
    case TokenKind::kInteger:
    case TokenKind::kFloat:
    case TokenKind::kOperator:
      break;
  }
  return fmt::format("'{}'", token.text);
}

std::string_view name_of(TokenKind kind) {
  switch (kind) {
    case TokenKind::kBlockEnd:
      return "%}";
    case TokenKind::kExpressionEnd:
      return "}}";
    case TokenKind::kName:
      return "a name";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kText:
    case TokenKind::kBlockBegin:
    case TokenKind::kExpressionBegin:
    case TokenKind::kInteger:
    case TokenKind::kFloat:
    case TokenKind::kOperator:
    case TokenKind::kEnd:
      break;
  }
  return "something else";
}

}  // namespace

bool TokenStream::at_operator(std::string_view text) const {
  return at(TokenKind::kOperator) && peek().text == text;
}

bool TokenStream::at_name(std::string_view text) const {
  return at(TokenKind::kName) && peek().text == text;
}

bool TokenStream::skip_operator(std::string_view text) {
  const bool found = at_operator(text);
  if (found) take();
  return found;
}

bool TokenStream::skip_name(std::string_view text) {
  const bool found = at_name(text);
  if (found) take();
  return found;
}

Result<void> TokenStream::expect_operator(std::string_view text) {
  if (!skip_operator(text)) return unexpected(fmt::format("'{}'", text));
  return {};
}

Result<void> TokenStream::expect(TokenKind kind) {
  if (!at(kind)) return unexpected(name_of(kind));
  take();
  return {};
}

std::unexpected<Error> TokenStream::unexpected(std::string_view expected) const {
  return fail_at(peek().at, fmt::format("expected {}, got {}", expected, spelled(peek())));
}

NameId Names::id(const std::string& name) {
  const auto [entry, added] = ids_.try_emplace(name, static_cast<NameId>(names_.size()));
  if (added) names_.push_back(std::make_unique<const std::string>(name));
  return entry->second;
}

}  // namespace kvist::jinja
