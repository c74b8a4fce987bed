#include <algorithm>

#include "kvist/render/table.h"

namespace kvist::render {
namespace {

/// Columns a text takes on a terminal, taking every character as one wide.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

}  // namespace

std::string render_text_table(const Table& table) {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    std::size_t width = width_of(table.columns[i].title);
    for (const auto& row : table.rows) width = std::max(width, width_of(row[i]));
    widths.push_back(width);
  }
  std::string out;
  const auto add_line = [&](const auto& cell_of) {
    std::string line;
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      const std::string& cell = cell_of(i);
      const std::string padding(widths[i] - width_of(cell), ' ');
      if (i > 0) line += "  ";
      line += table.columns[i].align == Align::kLeft ? cell + padding : padding + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  add_line([&](std::size_t i) -> const std::string& { return table.columns[i].title; });
  std::vector<std::string> rules;
  for (const std::size_t width : widths) rules.emplace_back(width, '-');
  add_line([&](std::size_t i) -> const std::string& { return rules[i]; });
  for (const auto& row : table.rows) {
    add_line([&](std::size_t i) -> const std::string& { return row[i]; });
  }
  return out;
}

}  // namespace kvist::render
