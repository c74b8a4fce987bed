// The list of changes that `kvist plan capacity --knobs` tries.
#include <fmt/format.h>

#include <algorithm>

#include "kvist/perfmodel/coefficients.h"
#include "kvist/perfmodel/step_time_model.h"
#include "kvist/planning/knobs.h"
#include "kvist/render/figures.h"

namespace kvist::planning {
namespace {

using spec::WorkerSpec;

/// Collects changes; each is given as an edit of every worker.
class Changes {
 public:
  Changes(const spec::SweepSpec& sweep, spec::RoutingMode mode) : sweep_(sweep), mode_(mode) {}

  template <class Edit>
  void workers(std::string knob, std::string from, std::string to, const Edit& edit) {
    KnobChange change{std::move(knob), std::move(from), std::move(to), sweep_, mode_};
    for (WorkerSpec& worker : change.sweep.deployment.workers) edit(worker);
    changes_.push_back(std::move(change));
  }
  void mode(spec::RoutingMode to) {
    changes_.push_back({"routing mode", std::string(to_string(mode_)), std::string(to_string(to)), sweep_, to});
  }
  void count(std::uint32_t to) {
    changes_.push_back({"workers", fmt::format("{}", sweep_.deployment.workers.size()), fmt::format("{}", to),
                        with_workers(sweep_, to), mode_});
  }
  std::vector<KnobChange> take() { return std::move(changes_); }

 private:
  const spec::SweepSpec& sweep_;
  const spec::RoutingMode mode_;
  std::vector<KnobChange> changes_;
};

/// The KV memory follows from the changed plan, whatever the file fixed.
void plan_memory_again(WorkerSpec& worker) {
  if (!worker.profile) return;
  worker.open.kv_blocks = true;
  worker.open.max_model_len = true;
}

std::string_view name_of(spec::AdmissionKind kind) {
  return kind == spec::AdmissionKind::kGreedy ? "greedy" : "reserve to completion";
}

void add_sizes(Changes& changes, const WorkerSpec& first) {
  // Nobody configures an engine for less than one sequence, or with steps that are too small for any prompt.
  constexpr std::uint32_t kLeastStepTokens = 64;
  for (const std::uint32_t size : {first.max_batch_size / 2, first.max_batch_size * 2}) {
    if (size == 0) continue;
    changes.workers("batch size", fmt::format("{}", first.max_batch_size), fmt::format("{}", size),
                    [size](WorkerSpec& worker) {
                      worker.max_batch_size = size;
                      worker.max_num_tokens = std::max(worker.max_num_tokens, size);
                    });
  }
  for (const std::uint32_t tokens : {first.max_num_tokens / 8, first.max_num_tokens / 2, first.max_num_tokens * 2}) {
    if (tokens < std::max(kLeastStepTokens, first.max_batch_size)) continue;
    changes.workers("chunk budget", fmt::format("{} tokens", first.max_num_tokens), fmt::format("{} tokens", tokens),
                    [tokens](WorkerSpec& worker) { worker.max_num_tokens = tokens; });
  }
}

void add_engine_options(Changes& changes, const WorkerSpec& first) {
  const auto other = first.admission == spec::AdmissionKind::kGreedy ? spec::AdmissionKind::kReserveToCompletion
                                                                     : spec::AdmissionKind::kGreedy;
  changes.workers("admission", std::string(name_of(first.admission)), std::string(name_of(other)),
                  [other](WorkerSpec& worker) {
                    worker.admission = other;
                    worker.open.admission = false;
                  });
  const bool deferral = !first.prefix_deferral;
  changes.workers("prefix deferral", deferral ? "off" : "on", deferral ? "on" : "off", [deferral](WorkerSpec& worker) {
    worker.prefix_deferral = deferral;
    worker.open.prefix_deferral = false;
  });
  const std::uint32_t steps = first.max_steps_in_flight > 1 ? 1 : 2;
  changes.workers("overlap scheduling", steps == 2 ? "off" : "on", steps == 2 ? "on" : "off",
                  [steps](WorkerSpec& worker) {
                    worker.max_steps_in_flight = steps;
                    worker.open.max_steps_in_flight = false;
                  });
}

std::string name_of(const spec::SpeculationSpec& speculation) {
  if (!speculation.enabled) return "off";
  return fmt::format("{}, {} tokens, {}, acceptance {}", speculation.drafter, speculation.draft_tokens,
                     speculation.draft_length == spec::DraftLength::kFixed ? "fixed" : "adaptive",
                     speculation.acceptance.empty() ? "-" : render::format_plain(speculation.acceptance.front()));
}

void add_speculation(Changes& changes, const WorkerSpec& first) {
  const auto change = [&](const spec::SpeculationSpec& to) {
    changes.workers("speculation", name_of(first.speculation), name_of(to), [to](WorkerSpec& worker) {
      worker.speculation = to;
      plan_memory_again(worker);  // a drafter takes memory
    });
  };
  spec::SpeculationSpec to = first.speculation;
  if (to.enabled) {
    to.enabled = false;
    change(to);
    to.enabled = true;
    to.draft_length =
        to.draft_length == spec::DraftLength::kFixed ? spec::DraftLength::kAdaptive : spec::DraftLength::kFixed;
    change(to);
    return;
  }
  to.enabled = true;
  for (const auto length : {spec::DraftLength::kFixed, spec::DraftLength::kAdaptive}) {
    to.draft_length = length;
    change(to);
  }
}

void add_memory_fractions(Changes& changes, const WorkerSpec& first) {
  const double present = first.profile->memory_fraction;
  const std::string from = present > 0 ? fmt::format("{:.2f}", present) : "engine's default";
  for (const double fraction : {0.80, 0.85, 0.90, 0.95}) {
    if (std::abs(fraction - present) < 0.005) continue;
    changes.workers("memory fraction", from, fmt::format("{:.2f}", fraction), [fraction](WorkerSpec& worker) {
      worker.profile->memory_fraction = fraction;
      plan_memory_again(worker);
    });
  }
}

void add_gpus(Changes& changes, const WorkerSpec& first) {
  for (const char* gpu : {"h100", "h200"}) {
    if (first.profile->gpu == gpu) continue;
    changes.workers("GPU", first.profile->gpu, gpu, [gpu](WorkerSpec& worker) {
      worker.profile->gpu = gpu;
      plan_memory_again(worker);
    });
  }
  for (const std::uint32_t parallel : {1U, 2U, 4U}) {
    if (first.profile->tensor_parallel == parallel) continue;
    changes.workers("tensor parallel", fmt::format("{}", first.profile->tensor_parallel), fmt::format("{}", parallel),
                    [parallel](WorkerSpec& worker) {
                      worker.profile->tensor_parallel = parallel;
                      plan_memory_again(worker);
                    });
  }
}

/// Captured graphs for every batch size, if the engine behaviour pads: where the profile knows the mechanism.
void add_graph_padding(Changes& changes, const WorkerSpec& first) {
  constexpr const char* kPadding = "graphs.padding";
  const auto coefficients = perfmodel::Coefficients::of(*first.profile);
  if (!coefficients || coefficients->find(kPadding) == nullptr) return;
  const bool padded = coefficients->find(kPadding)->value != 0;
  changes.workers("graph padding", padded ? "on" : "off", padded ? "off" : "on",
                  [padded](WorkerSpec& worker) { worker.profile->set[kPadding] = padded ? 0 : 1; });
}

}  // namespace

std::vector<KnobChange> knob_changes(const spec::SweepSpec& sweep, spec::RoutingMode mode) {
  const std::vector<WorkerSpec>& workers = sweep.deployment.workers;
  // With the settings that the profile determines if the file does not.
  const WorkerSpec first = perfmodel::resolve(workers.front()).value_or(workers.front());
  Changes changes(sweep, mode);
  add_sizes(changes, first);
  add_engine_options(changes, first);
  const bool all_profiled =
      std::ranges::all_of(workers, [](const WorkerSpec& worker) { return worker.profile.has_value(); });
  if (all_profiled) {
    add_speculation(changes, first);
    add_memory_fractions(changes, first);
    add_gpus(changes, first);
    add_graph_padding(changes, first);
  }
  const auto count = static_cast<std::uint32_t>(workers.size());
  if (count > 1) {
    for (const spec::RoutingMode other : spec::kRoutingModes) {
      if (other != mode && !spec::is_simulated_only(other)) changes.mode(other);
    }
    changes.count(count - 1);
  }
  changes.count(count + 1);
  return changes.take();
}

}  // namespace kvist::planning
