// Slow turns as rows of a table.
#pragma once

#include <string>
#include <vector>

#include "kvist/report/slow_turns.h"
#include "kvist/report/table.h"

namespace kvist::report {

[[nodiscard]] std::vector<Table::Column> slow_turn_columns();
/// One cell per column of slow_turn_columns().
[[nodiscard]] std::vector<std::string> slow_turn_cells(const SlowTurn& turn);

}  // namespace kvist::report
