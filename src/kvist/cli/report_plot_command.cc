// kvist report plot: a run's plots as one picture.
#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "kvist/base/output_file.h"
#include "kvist/cli/commands.h"
#include "kvist/cli/print.h"
#include "kvist/cli/stored.h"
#include "kvist/deploy/command.h"
#include "kvist/render/svg_plot.h"
#include "kvist/report/run_plots.h"

namespace kvist::cli {
namespace {

constexpr std::size_t kColumns = 2;
constexpr Duration kConversionTimeout = std::chrono::seconds(60);

/// One word for a shell, whatever is in it.
std::string quoted(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

/// By librsvg's program, which draws what a browser would.
Result<void> convert(const std::filesystem::path& svg, const std::filesystem::path& png) {
  const std::string command = fmt::format("rsvg-convert --zoom 2 --background-color white --output {} -- {}",
                                          quoted(png.string()), quoted(std::filesystem::absolute(svg).string()));
  auto done = deploy::run_command(command, deploy::Until::after(kConversionTimeout, {}));
  if (done) return {};
  return fail(ErrorCode::kUnavailable, "a PNG is made by rsvg-convert (Debian: librsvg2-bin): " + done.error().message);
}

}  // namespace

Result<void> run_report_plot(const ReportPlotArguments& arguments) {
  const std::filesystem::path output = arguments.output;
  const bool is_png = output.extension() == ".png";
  if (!is_png && output.extension() != ".svg") {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--output {}: want a name that ends in .svg or .png", arguments.output));
  }
  KVIST_TRY(const analysis::RunAnalysis analysis, analysis_of(arguments.results));
  const std::string svg = render::render_svg_sheet(report::plots_over_levels(analysis), kColumns);
  if (!is_png) {
    KVIST_TRY_VOID(write_file(arguments.output, svg));
  } else {
    std::filesystem::path between = output;
    between += ".svg";
    KVIST_TRY_VOID(write_file(between.string(), svg));
    auto converted = convert(between, output);
    std::error_code ignored;
    std::filesystem::remove(between, ignored);
    if (!converted) return converted;
  }
  print_line("plots     " + arguments.output);
  return {};
}

}  // namespace kvist::cli
