#include "kvist/cli/plan_command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

namespace kvist::cli {

void PlanCommandLine::add_to(CLI::App& app, Action& action) {
  add_plan(app, action);
  add_what_if(app, action);
}

void PlanCommandLine::add_plan(CLI::App& app, Action& action) {
  CLI::App* plan = app.add_subcommand("plan", "what a deployment holds, before anyone rents it");
  plan->require_subcommand(1);
  add_profiles(*plan->add_subcommand("profiles", "GPUs, models and engines that kvist has figures of"), action);
  add_capacity(*plan->add_subcommand("capacity", "the most users within an SLO, simulated or live"), action);
  CLI::App* memory = plan->add_subcommand("memory", "the memory budget of the workers' GPUs");
  memory->add_option("-f,--file", memory_.file, "file with a `deployment:`, or a sweep file")->required();
  memory->add_flag("--json", memory_.json, "as JSON");
  memory->callback([this, &action] { action = [this] { return plan_memory(memory_); }; });
}

void PlanCommandLine::add_what_if(CLI::App& app, Action& action) {
  WhatIfArguments& a = what_if_;
  CLI::App* command = app.add_subcommand("what-if", "recorded traffic under other policies and fleets, simulated");
  command
      ->add_option("record", a.record,
                   "what `gateway: {record: FILE}` wrote, or a request trace of NVIDIA Dynamo, *.jsonl or *.jsonl.gz")
      ->required();
  command->add_option("-f,--file", a.file, "file with the `deployment:` that answered, its engines as timed ones")
      ->required();
  command->add_option("--recorded-mode", a.recorded_mode,
                      "how the requests were routed, for a trace of Dynamo's; without it, dynamo (its kv)");
  command->add_option("--mode", a.modes, "what this routing mode would have done; may be repeated");
  command->add_option("--workers", a.workers, "and so many workers; may be repeated");
  command->add_option("--deployment", a.deployments, "and the deployment of this file; may be repeated");
  command->add_option("--warmup", a.warmup_pct, "percent of the recorded time that is not compared")
      ->capture_default_str();
  command->add_option("--max-error", a.max_error_pct, "percent that what did happen may be off, simulated")
      ->capture_default_str();
  command->add_option("--seeds", a.seeds, "runs of each")->capture_default_str();
  command->add_option("--threads", a.threads, "runs at once; without it, one per core");
  command->add_option("--json", a.json, "file to write the answer to as JSON");
  command->callback([this, &action] { action = [this] { return run_what_if(what_if_); }; });
}

void PlanCommandLine::add_profiles(CLI::App& command, Action& action) {
  spec::ProfileSpec& p = profiles_.profile;
  const std::vector<CLI::Option*> parts = {
      command.add_option("--gpu", p.gpu, "describe the combination with this GPU"),
      command.add_option("--model", p.model, "and this model"),
      command.add_option("--engine", p.engine, "and this engine"),
      command.add_option("--tensor-parallel", p.tensor_parallel, "on so many GPUs: 1, 2, 4"),
      command.add_option("--profile", p.file, "with coefficients of one's own, as `kvist fit` writes them")};
  command.callback([this, &action, parts] {
    profiles_.describe = std::ranges::any_of(parts, [](const CLI::Option* part) { return part->count() > 0; });
    action = [this] { return plan_profiles(profiles_); };
  });
}

void PlanCommandLine::add_capacity(CLI::App& command, Action& action) {
  PlanCapacityArguments& a = capacity_;
  command.add_option("-f,--file", a.file, "sweep file")->required();
  command.add_option("--slo", a.slo, "limits, such as ttft_p95=600ms,tpot_p95=60ms,error=1%")->required();
  command.add_option("--mode", a.modes, "this routing mode instead of the file's; may be repeated");
  CLI::Option* users = command.add_option("--users", a.users, "also find the number of workers that these users need");
  CLI::Option* knobs = command.add_flag("--knobs", a.knobs, "also find what each setting, changed alone, is worth");
  CLI::Option* live = command.add_flag("--live", a.live, "measure the levels on the deployment or the target");
  command.add_option("--logs", a.logs, "with --live: folder for the logs of what is started")->needs(live);
  live->excludes(knobs);
  live->excludes(users);
  command.add_option("--seeds", a.seeds, "seeds per level at most; clear levels need three");
  command.add_option("--confidence", a.confidence, "of every decision, in percent");
  command.add_option("--max-users", a.max_users, "search no further; without it, the gateway's max_in_flight");
  command.add_option("--threads", a.threads, "levels at once; without it, one per core");
  command.add_option("--json", a.json, "file to write the plan to as JSON");
  command.add_option("--markdown", a.markdown, "file to write the plan to in the published layout");
  command.add_option("--html", a.html, "file to write the plan to as a page");
  command.callback([this, &action] { action = [this] { return plan_capacity(capacity_); }; });
}

}  // namespace kvist::cli
