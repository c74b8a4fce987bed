// What a command is told of its dashboard.
#pragma once

#include <string>

#include "kvist/cli/tls_arguments.h"

namespace kvist::cli {

struct DashboardArguments {
  bool off = false;
  std::string baseline;  ///< a results database or its folder, a report.json, a file of data/reference; empty: none
  std::string slo;       ///< "ttft_p95=600ms,tpot_p95=60ms"; empty: none
  ListenArguments listen;
};

}  // namespace kvist::cli
