// A table, which is built once and rendered as Markdown, HTML or aligned text.
#pragma once

#include <string>
#include <vector>

namespace kvist::render {

enum class Align { kLeft, kCenter, kRight };

/// Rows have as many cells as there are columns. Cells are plain text: renderers escape them.
struct Table {
  struct Column {
    std::string title;
    Align align = Align::kCenter;  ///< figures are centred in the published documents
  };
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
};

/// Aligned with spaces, two between columns, for a terminal. Figures (centred columns) are aligned to the right.
[[nodiscard]] std::string render_text_table(const Table& table);

}  // namespace kvist::render
