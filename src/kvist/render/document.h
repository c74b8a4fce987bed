// A report as a list of blocks, independent of Markdown and HTML.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kvist/render/table.h"

namespace kvist::render {

/// A piece of running text in one style. The text is plain: renderers escape it.
struct Span {
  enum class Style { kPlain, kStrong, kCode };
  std::string text;
  Style style = Style::kPlain;
};
using Text = std::vector<Span>;

[[nodiscard]] inline Span strong(std::string text) {
  return {std::move(text), Span::Style::kStrong};
}
[[nodiscard]] inline Span code(std::string text) {
  return {std::move(text), Span::Style::kCode};
}

struct Heading {
  int level = 1;
  std::string text;
};
struct Paragraph {
  Text text;
};
struct Bullets {
  std::vector<Text> items;
};
struct CodeBlock {
  std::string language;
  std::string text;
};
/// The place of the plots in the HTML page; nothing in Markdown.
struct PlotsHere {};

using Block = std::variant<Heading, Paragraph, Bullets, Table, CodeBlock, PlotsHere>;
using Document = std::vector<Block>;

[[nodiscard]] std::string markdown_of(const Document& document);
/// The blocks as HTML, without a page around them. `plots` is HTML and replaces PlotsHere.
[[nodiscard]] std::string html_of(const Document& document, const std::string& plots);

/// Escapes text for HTML content and quoted attributes. Control characters and invalid UTF-8 become U+FFFD.
[[nodiscard]] std::string escape_html(std::string_view text);

}  // namespace kvist::render
