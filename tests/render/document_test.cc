#include "kvist/render/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvist/render/html_page.h"
#include "render/html_nesting.h"

namespace kvist::render::document_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Markdown, CellsCannotBreakOutOfTheirTable) {
  Table table{.columns = {{"Name", Align::kLeft}}, .rows = {{"a|b\n| c <script> `x` \\"}}};
  EXPECT_EQ(markdown_of({table}), "| Name |\n|:-----|\n| a\\|b \\| c &lt;script> \\`x\\` \\\\ |\n");
}

TEST(HtmlPage, PlotsAreAtTheirPlaceInTheDocument) {
  const Plot plot{.title = "Plotted", .x_title = "x", .y_title = "y", .series = {}};
  const Document document = {Heading{1, "A < B"}, PlotsHere{}, Paragraph{{{"Behind the plots."}}}};
  const std::string page = html_page("Title & all", document, {plot});
  EXPECT_EQ(nesting_error(page), "");
  EXPECT_THAT(page, HasSubstr("<title>Title &amp; all</title>"));
  EXPECT_LT(page.find("A &lt; B"), page.find("Plotted"));
  EXPECT_LT(page.find("Plotted"), page.find("Behind the plots."));
  EXPECT_THAT(html_page("Title", document, {}), Not(HasSubstr("class=\"plots\"")));
}

}  // namespace
}  // namespace kvist::render::document_test
