// What other policies and fleets would have made of recorded traffic.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/planning/calibration.h"
#include "kvist/planning/level_figures.h"
#include "kvist/planning/traffic_figures.h"
#include "kvist/planning/traffic_replay.h"
#include "kvist/workload/recorded_traffic.h"

namespace kvist::planning {

/// A situation and how it is called: "3 workers", or the name of a deployment.
struct WhatIfCase {
  std::string fleet;
  Situation situation;
};

struct WhatIfOptions {
  double warmup_share = 0.1;  ///< of the recorded time, in which nothing is compared
  std::size_t blocks = 10;    ///< of time: intervals are over them; every other one is held out of the fit
  std::uint32_t seeds = 3;    ///< per situation
  double max_error_pct = 10;  ///< of the medians of TTFT and TPOT after the fit, twice as much of TTFT p95
  unsigned threads = 0;       ///< 0: one per core; changes nothing but the time
  std::function<void(const std::string&)> progress = {};  ///< told what is being done; empty: nobody
};

/// The prediction of a case: what was observed, multiplied by the change that the case makes in the simulation with the
/// fitted times. So an error that the simulation makes on both sides cancels out.
struct Prediction {
  WhatIfCase of;
  LevelFigures figures;
  LevelFigures simulated;                                           ///< as they came
  std::array<std::optional<Change>, kMetrics.size()> changes = {};  ///< against what was recorded, simulated
  [[nodiscard]] const std::optional<Change>& change(Metric metric) const {
    return changes[static_cast<std::size_t>(metric)];
  }
};

struct WhatIf {
  std::size_t requests = 0;
  std::size_t following = 0;  ///< that waited for an earlier answer
  std::size_t compared = 0;
  std::size_t unserved = 0;     ///< left out: no worker answered them
  std::size_t other_modes = 0;  ///< compared requests that another mode routed
  double seconds = 0;           ///< from the first to the last arrival
  std::size_t blocks = 0;
  std::uint32_t seeds = 0;

  // What happened, over the requests that the fit did not see.
  LevelFigures observed;
  LevelFigures simulated;  ///< before the fit
  LevelFigures fitted;     ///< after it; the same as before it if the fit was left out
  Calibration calibration;
  std::optional<Calibration> left_out = {};  ///< a fit that misled (fit_misleads); then `calibration` changes nothing

  std::optional<std::string> refusal;   ///< why nothing is predicted
  std::vector<Prediction> predictions;  ///< what was recorded first, then the cases in their order
};

/// The mode that routed most of the requests.
[[nodiscard]] spec::RoutingMode recorded_mode(const workload::RecordedTraffic& traffic);

/// Whether the requests that a fit did not see speak against it: they are met clearly better without it. A fit to few
/// requests may follow what is particular to them, and a deployment that was right would be wrong with it.
[[nodiscard]] bool fit_misleads(const LevelFigures& observed, const LevelFigures& simulated,
                                const LevelFigures& fitted);

/// Simulates what happened on `fleet` and fits its times to what was observed, unless the fit misleads. If the two
/// agree then, it simulates the cases with the fitted times. Errors: too few requests to compare, a fleet of another
/// size than the record's, what cannot be simulated.
[[nodiscard]] Result<WhatIf> what_if(const workload::RecordedTraffic& traffic, const WhatIfCase& fleet,
                                     const std::vector<WhatIfCase>& cases, const WhatIfOptions& options);

/// For a terminal. `name`: of the record.
[[nodiscard]] std::string what_if_text(const WhatIf& answer, const std::string& name);
/// One object; docs/guide/what-if.md describes its keys.
[[nodiscard]] std::string what_if_json(const WhatIf& answer, const std::string& name);

}  // namespace kvist::planning
