// Slow turns as rows of a table.
#pragma once

#include <string>
#include <vector>

#include "kvist/analysis/slow_turns.h"
#include "kvist/render/table.h"

namespace kvist::report {

[[nodiscard]] std::vector<render::Table::Column> slow_turn_columns();
/// One cell per column of slow_turn_columns().
[[nodiscard]] std::vector<std::string> slow_turn_cells(const analysis::SlowTurn& turn);

}  // namespace kvist::report
