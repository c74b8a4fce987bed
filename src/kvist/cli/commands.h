// The commands, each as a function of its parsed arguments, which blocks until it is done or interrupted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/cli/dashboard_arguments.h"
#include "kvist/cli/tls_arguments.h"
#include "kvist/spec/profile_spec.h"

namespace kvist::cli {

/// In place of what the file says.
struct LogArguments {
  std::string format;  ///< "text", "json"; empty: the file's
  std::string level;   ///< "debug", "info", "warning", "error"; empty: the file's
};

struct WorkerArguments {
  std::string file;         ///< with a `worker:` mapping; or a model and how to serve it:
  std::string engine;       ///< "cpu"
  std::string model;        ///< directory of a checkpoint
  std::string served_name;  ///< the model's name for clients; empty: the directory's name
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;  ///< 0: any, as the next three
  std::uint16_t admin_port = 0;
  std::uint16_t kv_events_port = 0;
  std::uint16_t kv_replay_port = 0;
  std::string kv_events_topic;     ///< ZeroMQ topic; empty by default, as in vLLM
  std::uint32_t threads = 0;       ///< 0: one per core
  std::string weights;             ///< "bf16", "f32"; empty: as stored
  std::string kv_dtype;            ///< "bf16", "f16", "f32"; empty: as the weights
  std::string memory;              ///< with a unit; empty: the default
  std::uint32_t draft_tokens = 0;  ///< drafts by prompt look-up; 0: none
  std::string tool_parser;         ///< "hermes", "llama3_json", "mistral"; empty: tool calls stay text
  std::string api_key_file;        ///< the keys that requests must have, one a line; empty: they need none
  LogArguments log;
};
/// `kvist worker -f FILE`, `kvist worker --engine cpu --model DIR`: a worker, until SIGINT or SIGTERM.
[[nodiscard]] Result<void> serve_worker(const WorkerArguments& arguments);
struct GatewayArguments {
  std::string file;  ///< with a `gateway:` mapping
  LogArguments log;
};
/// `kvist gateway -f FILE`: the gateway, until SIGINT or SIGTERM.
[[nodiscard]] Result<void> serve_gateway(const GatewayArguments& arguments);
/// `kvist epp -f FILE`: the same routing as Envoy's endpoint picker, until SIGINT or SIGTERM.
[[nodiscard]] Result<void> serve_epp(const GatewayArguments& arguments);

struct DoctorArguments {
  std::string file;          ///< with a `gateway:`, `deployment:` or `worker:` mapping; or
  std::string gateway;       ///< the URL of a running gateway's listener for administration
  std::string api_key_file;  ///< its first line is the key for that; empty: none is sent
  TlsArguments tls;          ///< of that listener
  std::string timeout;       ///< of each question, with a unit; empty: 5 s
  bool alive = false;        ///< only whether the gateway takes requests
  bool json = false;
};
/// `kvist doctor -f FILE | --gateway URL`: prints what is wrong. Fails if that is an error rather than a warning; with
/// `--alive`, if the gateway does not take requests.
[[nodiscard]] Result<void> run_doctor(const DoctorArguments& arguments);

struct ModelCreateArguments {
  std::string directory;
  std::string size = "small";  ///< "tiny", "small", "base"
  std::uint64_t seed = 1;
  std::uint32_t vocabulary = 1'280;
  std::string dtype = "bf16";  ///< "bf16", "f16", "f32"
};
/// `kvist model create DIR`: a whole model directory with random weights; the same arguments give the same bytes.
[[nodiscard]] Result<void> create_model(const ModelCreateArguments& arguments);

struct LoadgenArguments {
  std::string target;
  std::string model;
  std::string workload_file;                   ///< empty: the default workload; what follows overrides it
  std::optional<std::uint32_t> concurrency;    ///< closed loop
  std::optional<double> rate;                  ///< open loop: starts per second; neither: idle until the control API
  std::string arrivals;                        ///< law of an open loop: "poisson", "constant", "gamma", "bursts"
  std::optional<double> variation;             ///< of gamma
  std::optional<std::uint32_t> burst_size;     ///< of bursts
  std::string profile;                         ///< "0s:1,60s:4": the rate over time, in starts per second
  std::optional<std::uint32_t> max_in_flight;  ///< of an open loop
  std::optional<double> max_start_rate;        ///< of a closed loop: starts per second
  std::optional<std::uint64_t> requests;       ///< end after so many
  std::string duration;                        ///< with a unit; empty: until SIGINT or SIGTERM
  std::string warmup;                          ///< with a unit; turns sent before are not in the summary
  std::optional<std::uint64_t> seed;
  std::string dataset;                         ///< ShareGPT JSON, chats or a Mooncake trace as JSON lines
  std::optional<double> characters_per_token;  ///< of the target's tokenizer; without it lengths are in characters
  std::string tokenizer;                  ///< the target's tokenizer.json, or its folder: lengths are in its tokens
  std::string input_tokens;               ///< "512", "100-900": of a first message
  std::string output_tokens;              ///< limit of an answer
  std::string turns;                      ///< of a conversation
  std::string follow_up_tokens;           ///< of a later message
  std::string follow_ups;                 ///< file whose lines are later messages
  std::string replies;                    ///< "live", "recorded": what stands in the history
  std::optional<std::uint32_t> prefixes;  ///< shared first messages
  std::optional<std::uint32_t> prefix_groups;  ///< groups whose first messages begin alike
  std::string prefix_tokens;                   ///< so many tokens long
  std::optional<double> prefix_skew;           ///< of the groups' sizes
  std::vector<std::string> mix;                ///< "3:chat.yaml": so many parts of conversations as in that file
  std::string think_time;                      ///< "2s", "1s-5s": before each turn but the first
  std::string concurrency_of;                  ///< "conversations" (empty), "requests"
  std::string prompt_ids;                      ///< "1000-30000": prompts are ids of this range, not text
  std::optional<double> speed;                 ///< of a trace
  bool ignore_eos = false;
  std::string timeout;               ///< of a request, with a unit
  std::string path;                  ///< of the endpoint; empty: /v1/chat/completions
  std::vector<std::string> headers;  ///< "Name: value"
  std::string output;                ///< folder for requests.jsonl, summary.json; empty: none
  std::string exports;               ///< "vllm,aiperf,guidellm,inference-perf", "all"
  std::string progress = "5s";       ///< between two progress lines; "0s": none
  std::string command;               ///< as the user typed it, for the record
  std::uint32_t threads = 1;         ///< on which the load is driven
  std::string source_addresses;      ///< "127.0.0.2-127.0.0.9": from which to connect; empty: the system chooses
  std::string host = "127.0.0.1";
  std::optional<std::uint16_t> port;  ///< without it: any
  std::string api_key_file;           ///< its first line is the key; empty: none is sent
  TlsArguments tls;                   ///< of the target and its gateway
  std::string calibration;            ///< file of run_calibrate(); "none"; empty: the usual one, if it is there
  bool within_calibration = false;    ///< refuse a load that is beyond it
  DashboardArguments dashboard;
  std::string gateway;  ///< URL of the target's listener for administration, for the dashboard; empty: not known
  std::string agents;   ///< "10.0.0.5:9400,10.0.0.6:9400": machines that drive the load; empty: this process does
  std::string agents_key_file;  ///< its first line is the key for them
  std::string agents_ca;        ///< PEM file of the authorities that their certificates are of
};
/// `kvist loadgen`: drives load, or serves the control API.
[[nodiscard]] Result<void> run_loadgen(const LoadgenArguments& arguments);

struct AgentArguments {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;  ///< 0: any
  ListenArguments listen;
  std::string listen_key_file;  ///< keys of which coordinators have to send one, one a line; empty: none is asked for
  std::uint32_t threads = 1;    ///< on which loads are driven
  std::string target;           ///< the one server that loads may be sent to; empty: any
  std::string api_key_file;     ///< its first line is the key for the target; empty: none is sent
  TlsArguments tls;             ///< of the target
  std::string source_addresses;
};
/// `kvist loadgen agent`: drives parts of loads for a coordinator, until SIGINT or SIGTERM.
[[nodiscard]] Result<void> serve_agent(const AgentArguments& arguments);

struct CalibrateArguments {
  std::string output;  ///< file to write; empty: the usual one
  std::string first = "50ms";
  std::string gap = "20ms";
  std::string measure = "2s";
  std::uint32_t tokens = 50;
  std::uint32_t most_streams = 10'000;
};
/// `kvist loadgen calibrate`: finds how many streams this machine drives with an error below 1 ms, and writes it to a
/// file that later loads are held against. Fails if there is none.
[[nodiscard]] Result<void> run_calibrate(const CalibrateArguments& arguments);

struct ReferenceArguments {
  std::string first = "50ms";  ///< from a request to its first token
  std::string gap = "20ms";    ///< between two tokens
  std::string jitter = "0ms";  ///< each token is up to so much later
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;  ///< 0: any
};
/// `kvist loadgen reference`: a server of known times, until SIGINT or SIGTERM.
[[nodiscard]] Result<void> serve_reference(const ReferenceArguments& arguments);

struct UpArguments {
  std::string file;
  std::string directory;  ///< for the parts' settings and logs, which are kept; empty: a temporary one in TMPDIR
  DashboardArguments dashboard;
  std::string host = "127.0.0.1";            ///< of the dashboard and the load generator's control API
  std::uint16_t port = 0;                    ///< 0: any
  std::string workload_file;                 ///< with a `workload:`, or a sweep; empty: the default workload
  std::optional<std::uint32_t> concurrency;  ///< that the page begins with; not started
  std::string api_key_file;                  ///< its first line is the key for the gateway; empty: none is sent
  bool dry_run = false;                      ///< the manifests of a deployment in Kubernetes are printed, nothing else
};
/// `kvist up -f FILE`: a deployment, an idle load generator beside it and the dashboard, until Ctrl-C.
[[nodiscard]] Result<void> run_up(const UpArguments& arguments);

struct DashboardCommandArguments {
  std::vector<std::string> results;  ///< databases, or folders that hold one
  std::string gateway;               ///< URL of a running gateway's listener for administration; empty: none
  std::string api_key_file;          ///< its first line is the key for that
  TlsArguments tls;                  ///< of that listener
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;  ///< 0: any
  DashboardArguments dashboard;
};
/// `kvist dashboard RESULTS...`: stored runs in a browser, until Ctrl-C.
[[nodiscard]] Result<void> run_dashboard(const DashboardCommandArguments& arguments);

struct SweepArguments {
  std::string file;      ///< empty: `resume` is given
  std::string output;    ///< empty: the file's
  std::string resume;    ///< folder of an interrupted sweep
  bool dry_run = false;  ///< prints the manifests that it would apply, and does nothing
  std::string agents;    ///< that drive the load, with commas between them; empty: the file's, if it has any
  std::string agents_key_file;
  std::string agents_ca;
  DashboardArguments dashboard;
  std::string host = "127.0.0.1";  ///< of the dashboard
  std::uint16_t port = 0;
};
/// `kvist sweep -f FILE [--output DIR] [--dry-run]`, `kvist sweep --resume DIR`; and the dashboard while it runs.
[[nodiscard]] Result<void> run_sweep(const SweepArguments& arguments);

struct SimulateArguments {
  std::string file;                          ///< empty: `resume` is given
  std::string resume;                        ///< folder of an interrupted simulation
  std::string output;                        ///< empty: the file's
  unsigned threads = 0;                      ///< 0: one per core
  std::vector<std::uint32_t> levels;         ///< instead of the file's; empty: the file's
  std::vector<std::string> modes;            ///< the same
  std::optional<std::uint32_t> repetitions;  ///< instead of the file's
};
/// `kvist simulate -f FILE`: a sweep in virtual time.
[[nodiscard]] Result<void> run_simulate(const SimulateArguments& arguments);

struct ReportArguments {
  std::string database;
  std::optional<std::int64_t> run;   ///< nothing: the last one
  std::string output;                ///< empty: the database's folder
  std::vector<std::string> exclude;  ///< "kv:24", "kv:24:2": measurements that are left out
};
/// `kvist report DB`: makes the report from stored results.
[[nodiscard]] Result<void> run_report(const ReportArguments& arguments);

struct ReportPlotArguments {
  std::string results;  ///< database, or folder of a sweep's results
  std::string output;   ///< *.svg or *.png
};
/// `kvist report plot RESULTS --output FILE`: the figures over the levels as one picture.
[[nodiscard]] Result<void> run_report_plot(const ReportPlotArguments& arguments);

struct ReportMergeArguments {
  std::vector<std::string> results;  ///< databases, or folders of a sweep's results
  std::string output;                ///< folder
};
/// `kvist report merge RESULTS... --output DIR`: one run of several.
[[nodiscard]] Result<void> run_report_merge(const ReportMergeArguments& arguments);

struct ReportCheckArguments {
  std::string database;
  std::optional<std::int64_t> run;  ///< nothing: the last one
  std::string reference;            ///< published figures: a file of data/reference, or a report.json
  std::string bars;                 ///< rules file with bars; empty: compared without bars
  std::string markdown;             ///< file to write; empty: none
  std::string json;
};
/// `kvist report check DB --reference FILE`: compares a run with published figures. Fails if a bar is missed.
[[nodiscard]] Result<void> run_report_check(const ReportCheckArguments& arguments);

struct ReportCompareArguments {
  std::vector<std::string> results;  ///< databases, or folders of a sweep's results
  std::string baseline;              ///< routing mode; empty: each run's first
  std::vector<std::string> modes;    ///< only these modes; empty: all
  bool runs = false;                 ///< the results beside each other in place of the modes of each
  std::string json;                  ///< file to write; empty: none
  std::string markdown;              ///< the same; of runs beside each other
  std::string html;
};
/// `kvist report compare RESULTS... [--baseline MODE]`: modes against a baseline, paired over seeds. With `--runs`, or
/// a file for it: the later results against the first.
[[nodiscard]] Result<void> run_report_compare(const ReportCompareArguments& arguments);

struct ReportRegressionArguments {
  std::string before;        ///< results database, its folder, or a folder or summary.json of `kvist loadgen --output`
  std::string after;         ///< the same kind
  double tolerance_pct = 5;  ///< smaller changes are none
  double error_tolerance_points = 0.5;  ///< the same of the share of errors
};
/// `kvist report regression BEFORE AFTER`: fails if a figure is worse, or is not known any more.
[[nodiscard]] Result<void> run_report_regression(const ReportRegressionArguments& arguments);

struct TraceGenerateArguments {
  std::string output;                          ///< *.jsonl
  std::string workload_file;                   ///< empty: the default workload
  std::optional<std::uint32_t> conversations;  ///< of chats; nothing: the generator's default
  std::optional<std::uint64_t> seed;           ///< nothing: the workload's
  std::string think_time;                      ///< of chats, with a unit; empty: the generator's default
  std::string kind;            ///< traffic other than chat (workload::TrafficKind); empty: the workload's chats
  std::optional<double> rate;  ///< of a kind: starts a second; nothing: 1
  std::string duration;        ///< of a kind, with a unit; empty: ten minutes
};
/// `kvist trace generate`: writes a trace in Mooncake's format. An option that means nothing for the traffic asked for
/// is an error.
[[nodiscard]] Result<void> run_trace_generate(const TraceGenerateArguments& arguments);

/// 0: no bound.
struct KeyCreateArguments {
  std::string name;
  std::string key_class;
  std::uint32_t requests_per_minute = 0;
  std::uint32_t tokens_per_minute = 0;
  std::uint32_t concurrency = 0;
};
/// `kvist key create`: prints a new API key, which is kept nowhere, and its line for the gateway's file of keys.
[[nodiscard]] Result<void> create_key(const KeyCreateArguments& arguments);

struct ExplainArguments {
  std::string file;     ///< an answer of GET /admin/decisions; "-": standard input
  std::string request;  ///< X-Request-Id: prints this request's decisions in full; empty: one line for each decision
};
/// `kvist explain FILE`: prints recorded routing decisions and repeats each. Fails if one is different.
[[nodiscard]] Result<void> run_explain(const ExplainArguments& arguments);

struct FitArguments {
  std::string profile;    ///< engine behaviour to start from, or a profile file; empty: the sweep's
  std::string reference;  ///< published figures, or
  std::string database;   ///< results of a sweep of one's own
  std::optional<std::int64_t> run;
  std::string sweep;                      ///< description of what was measured; empty: the database's own
  std::vector<std::string> free;          ///< coefficients; empty: those the profile marks as free
  std::vector<std::uint32_t> fit_levels;  ///< empty: all but those held out
  std::vector<std::uint32_t> hold_out;
  std::uint32_t seeds = 4;
  unsigned threads = 0;  ///< 0: one per core
  std::string out;       ///< profile file to write
  std::string json;      ///< the fit as JSON; empty: none
};
/// `kvist fit`: fits a profile's coefficients to measurements and writes a profile file.
[[nodiscard]] Result<void> run_fit(const FitArguments& arguments);

struct WhatIfArguments {
  std::string record;         ///< of a gateway, or a trace of Dynamo's: *.jsonl
  std::string file;           ///< the deployment that answered
  std::string recorded_mode;  ///< how it was routed, where the record does not tell; empty: as it says, or dynamo
  std::vector<std::string> modes;
  std::vector<std::uint32_t> workers;
  std::vector<std::string> deployments;
  double warmup_pct = 10;     ///< of the recorded time
  double max_error_pct = 10;  ///< of what did happen, simulated
  std::uint32_t seeds = 3;
  unsigned threads = 0;  ///< 0: one per core
  std::string json;      ///< file to write; empty: none
};
/// `kvist what-if RECORD -f FILE`: recorded traffic under other modes, numbers of workers and deployments. Fails where
/// the simulation does not meet what was recorded.
[[nodiscard]] Result<void> run_what_if(const WhatIfArguments& arguments);

struct PlanCapacityArguments {
  std::string file;
  std::string slo;                         ///< "ttft_p95=600ms,tpot_p95=60ms"
  std::vector<std::string> modes;          ///< instead of the file's; empty: the file's
  std::optional<std::uint32_t> users;      ///< also find how many workers this number of users needs
  bool knobs = false;                      ///< also find the gain of each setting
  bool live = false;                       ///< levels are measured, not simulated
  std::string logs;                        ///< of a live search: folder for the parts' logs; empty: out/plan-logs
  std::uint32_t seeds = 12;                ///< per level, at most
  double confidence = 95;                  ///< percent
  std::optional<std::uint32_t> max_users;  ///< the gateway's max_in_flight if not given
  unsigned threads = 0;                    ///< 0: one per core
  std::string json;                        ///< file to write; empty: none
  std::string markdown;
  std::string html;
};
/// `kvist plan capacity -f FILE --slo ... [--live]`: the most users within the SLO, in virtual time or measured.
[[nodiscard]] Result<void> plan_capacity(const PlanCapacityArguments& arguments);

struct PlanMemoryArguments {
  std::string file;   ///< with a `deployment:` mapping
  bool json = false;  ///< in place of the table
};
/// `kvist plan memory -f FILE`: the memory budget of the workers' GPUs.
[[nodiscard]] Result<void> plan_memory(const PlanMemoryArguments& arguments);

struct PlanProfilesArguments {
  bool describe = false;  ///< `profile` in full, in place of the list
  spec::ProfileSpec profile;
};
/// `kvist plan profiles`: lists the embedded profile parts, or one combination with its coefficients.
[[nodiscard]] Result<void> plan_profiles(const PlanProfilesArguments& arguments);

}  // namespace kvist::cli
