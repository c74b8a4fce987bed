// One self-contained page: style sheet, plots, and the blocks of a document.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kvist/render/document.h"
#include "kvist/render/svg_plot.h"

namespace kvist::render {

/// A page with the document; the plots are at PlotsHere.
[[nodiscard]] std::string html_page(const std::string& title, const Document& document, const std::vector<Plot>& plots);

/// The plots side by side, as HTML; empty if there are none.
[[nodiscard]] std::string plots_html(const std::vector<Plot>& plots);
/// A page with `body`, which is HTML. `style` is CSS in addition to the page's own. Only `title` is escaped.
[[nodiscard]] std::string page_around(const std::string& title, const std::string& body, std::string_view style);

}  // namespace kvist::render
