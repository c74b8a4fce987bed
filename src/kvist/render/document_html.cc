#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "kvist/base/utf8.h"
#include "kvist/render/document.h"

namespace kvist::render {
namespace {

std::string_view align_class(Align align) {
  switch (align) {
    case Align::kLeft:
      return "left";
    case Align::kCenter:
    case Align::kRight:
      return "figure";
  }
  return "left";
}

struct HtmlWriter {
  std::string& out;
  const std::string& plots;

  void operator()(const Heading& heading) const {
    const int level = std::clamp(heading.level, 1, 6);
    out += fmt::format("<h{0}>{1}</h{0}>\n", level, escape_html(heading.text));
  }
  void operator()(const Paragraph& paragraph) const {
    out += "<p>";
    append(paragraph.text);
    out += "</p>\n";
  }
  void operator()(const Bullets& bullets) const {
    out += "<ul>\n";
    for (const Text& item : bullets.items) {
      out += "<li>";
      append(item);
      out += "</li>\n";
    }
    out += "</ul>\n";
  }
  void operator()(const Table& table) const {
    out += "<div class=\"scroll\"><table>\n<thead><tr>";
    for (const Table::Column& column : table.columns) {
      out += fmt::format("<th class=\"{}\">{}</th>", align_class(column.align), escape_html(column.title));
    }
    out += "</tr></thead>\n<tbody>\n";
    for (const auto& row : table.rows) {
      out += "<tr>";
      for (std::size_t i = 0; i < row.size(); ++i) {
        const Align align = i < table.columns.size() ? table.columns[i].align : Align::kLeft;
        out += fmt::format("<td class=\"{}\">{}</td>", align_class(align), escape_html(row[i]));
      }
      out += "</tr>\n";
    }
    out += "</tbody></table></div>\n";
  }
  void operator()(const CodeBlock& block) const {
    out += "<details><summary>Show</summary><pre><code>" + escape_html(block.text) + "</code></pre></details>\n";
  }
  void operator()(const PlotsHere&) const { out += plots; }

  void append(const Text& text) const {
    for (const Span& span : text) {
      const std::string escaped = escape_html(span.text);
      switch (span.style) {
        case Span::Style::kPlain:
          out += escaped;
          break;
        case Span::Style::kStrong:
          out += "<strong>" + escaped + "</strong>";
          break;
        case Span::Style::kCode:
          out += "<code>" + escaped + "</code>";
          break;
      }
    }
  }
};

}  // namespace

std::string escape_html(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    const char c = text.front();
    if (length == 0 || c == 0x7f || (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t')) {
      out += kReplacement;
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string html_of(const Document& document, const std::string& plots) {
  std::string out;
  for (const Block& block : document) std::visit(HtmlWriter{out, plots}, block);
  return out;
}

}  // namespace kvist::render
