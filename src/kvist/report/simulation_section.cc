#include <fmt/format.h>

#include "kvist/report/sections.h"

namespace kvist::report {

void add_simulation_notice(Document& document, const RunAnalysis& analysis) {
  if (!analysis.run().simulated) return;
  document.push_back(Paragraph{
      {strong("This run is simulated."),
       {" No GPU, network or clock was involved: the scheduler, KV pool, router, workload and recorder of the live "
        "system ran in virtual time, and engine steps took what a model of the GPU says. All times are virtual; the "
        "machine below only says where the simulation was computed."}}});
}

}  // namespace kvist::report
