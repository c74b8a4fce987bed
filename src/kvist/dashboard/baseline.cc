#include "kvist/dashboard/baseline.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "kvist/analysis/headline.h"
#include "kvist/analysis/named_figures.h"
#include "kvist/analysis/stored_run.h"
#include "kvist/base/input_file.h"
#include "kvist/base/json.h"
#include "kvist/dashboard/json_fields.h"

namespace kvist::dashboard {
namespace {

using analysis::Headline;
using analysis::Metric;

struct PublishedFigure {
  Metric metric;
  Live live;
};
constexpr std::array<PublishedFigure, 10> kPublished = {{{Metric::kTtftP50, Live::kTtftP50},
                                                         {Metric::kTtftP95, Live::kTtftP95},
                                                         {Metric::kTpotP50, Live::kTpotP50},
                                                         {Metric::kTpotP95, Live::kTpotP95},
                                                         {Metric::kLatencyP50, Live::kLatencyP50},
                                                         {Metric::kLatencyP95, Live::kLatencyP95},
                                                         {Metric::kThroughput, Live::kOutputTokens},
                                                         {Metric::kTurnRate, Live::kTurns},
                                                         {Metric::kErrorPct, Live::kErrorPct},
                                                         {Metric::kHitRatePct, Live::kHitRatePct}}};

bool is_time(std::string_view key) {
  return key.ends_with("_ms");
}
bool is_rate(std::string_view key) {
  return key.ends_with("_per_s");
}

BaselineMode& mode_of(Baseline& baseline, const spec::Arm& mode) {
  const auto found = std::ranges::find(baseline.modes, mode, &BaselineMode::mode);
  if (found != baseline.modes.end()) return *found;
  baseline.modes.push_back({.mode = mode, .levels = {}});
  return baseline.modes.back();
}

void sort_levels(Baseline& baseline) {
  for (BaselineMode& mode : baseline.modes) std::ranges::sort(mode.levels, {}, &BaselineLevel::concurrency);
}

bool is_empty(const LiveFigures& figures) {
  return std::ranges::none_of(figures, [](const auto& figure) { return figure.has_value(); });
}

std::string_view kind_word(BaselineKind kind) {
  switch (kind) {
    case BaselineKind::kResults:
      return "results";
    case BaselineKind::kReport:
      return "report";
    case BaselineKind::kReference:
      return "reference";
  }
  return "reference";
}

void write_figures(JsonWriter& json, const LiveFigures& figures) {
  json.key("figures").begin_object();
  for (std::size_t i = 0; i < kLiveFigures; ++i) {
    if (!figures[i]) continue;
    json.key(kLiveKeys[i]);
    figure_value(json, *figures[i]);
  }
  json.end_object();
}

/// A report.json of kvist's says more than the published keys.
struct ReportFacts {
  bool is_report = false;
  std::string name;
  std::optional<double> time_scale;
};
ReportFacts report_facts(std::string_view text) {
  ReportFacts facts;
  JsonDocument document;
  const auto root = document.parse_object(text);
  if (!root) return facts;
  const auto own = root->peek("kvist");
  const auto object = own ? own->if_object() : std::nullopt;
  if (!object) return facts;
  facts.is_report = true;
  if (const auto name = object->peek("name")) facts.name = name->if_string().value_or("");
  if (const auto scale = object->peek("time_scale")) facts.time_scale = scale->if_double();
  return facts;
}

Result<Baseline> load_json(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  KVIST_TRY(const analysis::Reference reference, analysis::load_reference(path));
  Baseline baseline = baseline_of(reference, name);
  KVIST_TRY(const std::string text, read_file(path, analysis::kMostReferenceBytes));
  const ReportFacts facts = report_facts(text);
  if (facts.is_report) {
    baseline.kind = BaselineKind::kReport;
    baseline.time_scale = facts.time_scale;
    if (!facts.name.empty()) baseline.title = facts.name;
  }
  if (baseline.modes.empty()) return fail(ErrorCode::kInvalidArgument, path + ": has no level with figures");
  return baseline;
}

}  // namespace

spec::Arm Baseline::default_mode() const {
  const auto is_there = [this](spec::RoutingMode wanted) {
    return std::ranges::find(modes, wanted, &BaselineMode::mode) != modes.end();
  };
  for (const spec::RoutingMode plain :
       {spec::RoutingMode::kRoundRobin, spec::RoutingMode::kRandom, spec::RoutingMode::kLeastLoaded})
    if (is_there(plain)) return plain;
  return modes.empty() ? spec::Arm(spec::RoutingMode::kRoundRobin) : modes.front().mode;
}

std::optional<BaselinePoint> Baseline::at(const BaselineMode& mode, std::uint32_t concurrency) {
  const auto above = std::ranges::lower_bound(mode.levels, concurrency, {}, &BaselineLevel::concurrency);
  if (above == mode.levels.end()) return std::nullopt;
  if (above->concurrency == concurrency) {
    return BaselinePoint{.figures = above->figures, .below = concurrency, .above = concurrency};
  }
  if (above == mode.levels.begin()) return std::nullopt;
  const BaselineLevel& below = *std::prev(above);
  BaselinePoint point{.figures = {}, .below = below.concurrency, .above = above->concurrency};
  const double share = static_cast<double>(concurrency - below.concurrency) /
                       static_cast<double>(above->concurrency - below.concurrency);
  for (std::size_t i = 0; i < kLiveFigures; ++i) {
    const auto& low = below.figures[i];
    const auto& high = above->figures[i];
    if (low && high) point.figures[i] = *low + (share * (*high - *low));
  }
  return point;
}

void Baseline::convert_to(double scale) {
  const double factor = time_scale.value_or(1) / scale;
  if (!(factor > 0) || factor == 1) return;
  time_factor *= factor;
  time_scale = scale;
  for (BaselineMode& mode : modes) {
    for (BaselineLevel& level : mode.levels) {
      for (std::size_t i = 0; i < kLiveFigures; ++i) {
        if (!level.figures[i]) continue;
        if (is_time(kLiveKeys[i])) *level.figures[i] *= factor;
        if (is_rate(kLiveKeys[i])) *level.figures[i] /= factor;
      }
    }
  }
}

LiveFigures figures_of(const analysis::MeasuredLevel& level) {
  LiveFigures figures;
  for (const MeasuredFigure& one : kMeasured)
    figures[index_of(one.live)] = analysis::estimate_of(level, analysis::headline(one.headline)).value;
  return figures;
}

LiveFigures figures_of(const analysis::LevelAnalysis& level) {
  LiveFigures figures;
  for (const MeasuredFigure& one : kMeasured)
    figures[index_of(one.live)] = analysis::headline(one.headline).figure(level);
  return figures;
}

Baseline baseline_of(const analysis::Reference& reference, const std::string& name) {
  Baseline baseline{.title = reference.name, .source = name, .kind = BaselineKind::kReference, .time_scale = 1};
  for (const analysis::ReferenceFigures& level : reference.levels) {
    BaselineLevel made{.concurrency = level.concurrency, .figures = {}};
    for (const PublishedFigure& one : kPublished)
      made.figures[index_of(one.live)] = level.figure(analysis::figure_of(one.metric));
    if (!is_empty(made.figures)) mode_of(baseline, level.mode).levels.push_back(std::move(made));
  }
  sort_levels(baseline);
  return baseline;
}

Baseline baseline_of(const analysis::RunAnalysis& run, const std::string& name) {
  Baseline baseline{
      .title = run.run().name, .source = name, .kind = BaselineKind::kResults, .time_scale = run.time_scale()};
  for (const spec::Arm& mode : run.modes()) {
    for (const std::uint32_t concurrency : run.concurrencies()) {
      const analysis::MeasuredLevel* const level = run.find(mode, concurrency);
      if (level == nullptr) continue;
      BaselineLevel made{.concurrency = concurrency, .figures = figures_of(*level)};
      if (!is_empty(made.figures)) mode_of(baseline, mode).levels.push_back(std::move(made));
    }
  }
  sort_levels(baseline);
  return baseline;
}

Result<Baseline> load_baseline(const std::string& path, std::optional<double> time_scale) {
  Baseline baseline;
  if (std::filesystem::path(path).extension() == ".json") {
    KVIST_TRY(baseline, load_json(path));
  } else {
    KVIST_TRY(const std::string database, analysis::find_database(path));
    KVIST_TRY(const analysis::RunAnalysis run, analysis::load_analysis(database));
    // With its folder, which says what a folder of several results stands for.
    const std::filesystem::path file = std::filesystem::absolute(database);
    baseline = baseline_of(run, (file.parent_path().filename() / file.filename()).string());
  }
  if (time_scale && *time_scale > 0) baseline.convert_to(*time_scale);
  return baseline;
}

std::string baseline_json(const Baseline* baseline) {
  JsonWriter json;
  json.begin_object().field("type", "baseline").key("baseline");
  if (baseline == nullptr) {
    json.null().end_object();
    return json.take();
  }
  json.begin_object().field("title", baseline->title).field("source", baseline->source);
  json.field("kind", kind_word(baseline->kind)).field("time_factor", baseline->time_factor);
  json.field("default_mode", spec::to_string(baseline->default_mode())).key("modes").begin_array();
  for (const BaselineMode& mode : baseline->modes) {
    json.begin_object().field("mode", spec::to_string(mode.mode)).key("levels").begin_array();
    for (const BaselineLevel& level : mode.levels) {
      json.begin_object().field("concurrency", level.concurrency);
      write_figures(json, level.figures);
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array().end_object().end_object();
  return json.take();
}

void write_baseline_at(JsonWriter& json, const Baseline& baseline, std::uint32_t concurrency) {
  json.begin_object();
  for (const BaselineMode& mode : baseline.modes) {
    json.key(spec::to_string(mode.mode));
    const auto point = Baseline::at(mode, concurrency);
    if (!point) {
      json.null();
      continue;
    }
    json.begin_object();
    write_figures(json, point->figures);
    json.field("interpolated", point->interpolated()).key("between").begin_array();
    json.value(point->below).value(point->above).end_array().end_object();
  }
  json.end_object();
}

}  // namespace kvist::dashboard
