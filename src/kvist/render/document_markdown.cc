#include <algorithm>

#include "kvist/render/document.h"

namespace kvist::render {
namespace {

/// Text from outside (names, messages) must not become markup, neither a table cell's border nor HTML.
std::string escape(std::string_view text, bool in_cell) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\':
      case '`':
      case '*':
      case '[':
        out += '\\';
        out += c;
        break;
      case '|':
        out += in_cell ? "\\|" : "|";
        break;
      case '<':
        out += "&lt;";
        break;
      case '&':
        out += "&amp;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
  }
  return out;
}

void append(std::string& out, const Text& text) {
  for (const Span& span : text) {
    switch (span.style) {
      case Span::Style::kPlain:
        out += escape(span.text, false);
        break;
      case Span::Style::kStrong:
        out += "**" + escape(span.text, false) + "**";
        break;
      case Span::Style::kCode: {
        std::string raw = span.text;
        std::replace_if(raw.begin(), raw.end(), [](char c) { return c == '`' || c == '\n' || c == '\r'; }, ' ');
        out += "`" + raw + "`";
        break;
      }
    }
  }
}

void append(std::string& out, const Table& table) {
  const auto line = [&out](const auto& cells, const auto& text_of) {
    out += '|';
    for (const auto& cell : cells) out += " " + text_of(cell) + " |";
    out += '\n';
  };
  line(table.columns, [](const Table::Column& column) { return escape(column.title, true); });
  out += '|';
  for (const Table::Column& column : table.columns) {
    // As long as the head and the two spaces around it, like the published documents.
    const std::size_t dashes = column.title.size() + (column.align == Align::kCenter ? 0 : 1);
    out += column.align == Align::kRight ? "" : ":";
    out += std::string(std::max<std::size_t>(dashes, 3), '-');
    out += column.align == Align::kLeft ? "" : ":";
    out += '|';
  }
  out += '\n';
  for (const auto& row : table.rows) {
    line(row, [](const std::string& cell) { return escape(cell, true); });
  }
}

struct MarkdownWriter {
  std::string& out;

  void operator()(const Heading& heading) const {
    out += std::string(static_cast<std::size_t>(heading.level), '#') + " " + escape(heading.text, false) + "\n";
  }
  void operator()(const Paragraph& paragraph) const {
    append(out, paragraph.text);
    out += '\n';
  }
  void operator()(const Bullets& bullets) const {
    for (const Text& item : bullets.items) {
      out += "- ";
      append(out, item);
      out += '\n';
    }
  }
  void operator()(const Table& table) const { append(out, table); }
  void operator()(const CodeBlock& block) const {
    out += "```" + block.language + "\n" + block.text;
    if (!block.text.ends_with('\n')) out += '\n';
    out += "```\n";
  }
  void operator()(const PlotsHere&) const {}
};

}  // namespace

std::string markdown_of(const Document& document) {
  std::string out;
  for (const Block& block : document) {
    if (std::holds_alternative<PlotsHere>(block)) continue;
    if (!out.empty()) out += '\n';
    std::visit(MarkdownWriter{out}, block);
  }
  return out;
}

}  // namespace kvist::render
