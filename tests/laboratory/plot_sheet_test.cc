#include "kvist/laboratory/plot_sheet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvist::laboratory::plot_sheet_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kSheet = R"({"columns": 2, "plots": [
  {"title": "TTFT p95", "x_title": "load", "y_title": "ms", "logarithmic": true, "series": [
    {"name": "kv", "colour": 1, "points": [[30, 500], [60, null], [95, 2000]]},
    {"name": "clairvoyant", "colour": 8, "dashed": true, "points": [[30, 400], [60, 700], [95, 900]]}]},
  {"title": "goodput", "x_title": "load", "y_title": "%", "series": [
    {"name": "kv", "colour": 1, "points": [[30, 100]]}, {"name": "clairvoyant", "colour": 8, "points": [[30, 100]]}]}]})";

TEST(PlotSheet, DrawsWhatItIsTold) {
  const Result<std::string> svg = plot_sheet(kSheet);
  ASSERT_TRUE(svg) << svg.error().message;
  EXPECT_THAT(*svg, AllOf(HasSubstr("<svg"), HasSubstr("TTFT p95"), HasSubstr("goodput"), HasSubstr("clairvoyant"),
                          HasSubstr("dashed")));
}

TEST(PlotSheet, SaysWhatIsWrongWhere) {
  const auto error = [](const char* json) {
    const Result<std::string> svg = plot_sheet(json);
    return svg ? std::string() : svg.error().message;
  };
  EXPECT_THAT(error(R"({"columns": 2})"), HasSubstr("plots"));
  EXPECT_THAT(error(R"({"columns": 2, "plots": []})"), HasSubstr("at least one"));
  EXPECT_THAT(error(R"({"columns": 1, "plots": [{"title": "a", "x_title": "b", "y_title": "c", "series": [
                       {"name": "kv", "colour": 99, "points": []}]}]})"),
              HasSubstr("colour"));
  EXPECT_THAT(error(R"({"columns": 1, "plots": [{"title": "a", "x_title": "b", "y_title": "c", "series": [
                       {"name": "kv", "colour": 1, "points": [[1]]}]}]})"),
              HasSubstr("a pair"));
}

}  // namespace
}  // namespace kvist::laboratory::plot_sheet_test
