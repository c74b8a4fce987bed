// Random settings are written and read back to the same values.
#include <gtest/gtest.h>

#include <cstdlib>

#include "kvist/base/random.h"
#include "kvist/spec/sweep.h"
#include "spec/parsed.h"

namespace kvist::spec::round_trip_test {
namespace {

constexpr int kRounds = 300;

class RoundTripTest : public testing::Test {
 protected:
  RoundTripTest()
      : seed_(std::getenv("KVIST_TEST_SEED") ? std::strtoull(std::getenv("KVIST_TEST_SEED"), nullptr, 10) : 20'261'121),
        random_(seed_) {
    std::printf("seed %llu (KVIST_TEST_SEED sets it)\n", static_cast<unsigned long long>(seed_));
  }

  template <class T = std::uint32_t>
  T number(std::int64_t low, std::int64_t high) {
    return static_cast<T>(random_.uniform_int(low, high));
  }
  Duration duration(std::int64_t low_ns = 1) {
    // All magnitudes, so that every unit and the odd nanosecond occur.
    const std::int64_t unit[] = {1, 1'000, 1'000'000, 1'000'000'000};
    return Duration(low_ns + unit[number<std::size_t>(0, 3)] * number<std::int64_t>(1, 1'000'000));
  }
  std::string text() {
    const char* texts[] = {"llama",
                           "meta/llama-3.1: 70b",
                           "it's \"quoted\" # no comment",
                           "- x",
                           "5",
                           "true",
                           "~",
                           "\xc3\xa9t\xc3\xa9",
                           "back\\slash",
                           "{a: b}",
                           " spaces "};
    return texts[number<std::size_t>(0, std::size(texts) - 1)];
  }

  /// A profile, without some of the settings that it may determine.
  void describe_gpu(WorkerSpec& w) {
    w.profile = ProfileSpec{.gpu = number(0, 1) == 1 ? "h100" : "h200",
                            .model = "llama-3.1-8b-fp8",
                            .engine = number(0, 1) == 1 ? "vllm" : "trtllm",
                            .tensor_parallel = 1U << number(0, 2),
                            .kv_dtype = number(0, 1) == 1 ? KvDtype::kFp8 : KvDtype::kFp16,
                            .memory_fraction = number(0, 1) == 1 ? 0.05 + 0.95 * random_.uniform() : 0,
                            .memory_meaning = static_cast<MemoryMeaning>(number<int>(0, 2)),
                            .file = number(0, 1) == 1 ? text() : "",
                            .set = {}};
    if (number(0, 1) == 1) w.profile->set = {{"graphs.padding", 1}, {"launch.fixed", 10 * random_.uniform()}};
    const WorkerSpec defaults;
    if (number(0, 1) == 1) {
      w.open.kv_blocks = true;
      w.kv_blocks = defaults.kv_blocks;
      if (number(0, 1) == 1) {
        w.open.max_model_len = true;
        w.max_model_len = defaults.max_model_len;
      }
    }
    if (number(0, 1) == 1) {
      w.open.max_steps_in_flight = true;
      w.max_steps_in_flight = defaults.max_steps_in_flight;
    }
    if (number(0, 1) == 1) {
      w.open.admission = true;
      w.admission = defaults.admission;
    }
    if (number(0, 1) == 1) {
      w.open.prefix_deferral = true;
      w.prefix_deferral = defaults.prefix_deferral;
    }
    if (number(0, 1) == 1) {
      w.open.prefix_when_planned = true;
      w.prefix_when_planned = defaults.prefix_when_planned;
    }
  }

  SpeculationSpec speculation() {
    SpeculationSpec s;
    s.enabled = number(0, 3) > 0;
    if (number(0, 1) == 1) s.drafter = "llama-3.1-8b-fp8";
    if (number(0, 1) == 1) s.draft_length = DraftLength::kAdaptive;
    s.draft_tokens = number(1, 15);
    s.acceptance.clear();
    const auto positions = number(1, 15);
    for (std::uint32_t i = 0; i < positions; ++i) s.acceptance.push_back(random_.uniform());
    return s;
  }

  RecordSpec record() {
    return {.file = "/records/day 1.jsonl", .max_file_bytes = number(65'536, 1 << 30), .files = number(1, 1'000)};
  }

  TraceSpec trace() {
    const bool is_recorded = number(0, 1) == 1;
    return {.file = is_recorded ? "out/runs.sqlite" : "/traces/day 1.jsonl",
            .run = is_recorded ? number<std::int64_t>(0, 1LL << 62) : 0,
            .level = is_recorded ? number<std::int64_t>(0, 100) : 0,
            .loop = number(0, 1) == 1 ? TraceLoop::kClosed : TraceLoop::kOpen,
            .sessions = number(0, 1) == 1 ? TraceSessions::kIgnore : TraceSessions::kFollow,
            .speed = 0.001 + 100 * random_.uniform(),
            .tokens_per_hash = number(0, 65'536)};
  }

  /// The rate is the level's, so a workload with open arrivals has none of its own.
  void open_arrivals(WorkloadSpec& workload) {
    workload.target_rps = WorkloadSpec{}.target_rps;
    constexpr ArrivalKind kKinds[] = {ArrivalKind::kPoisson, ArrivalKind::kBursty, ArrivalKind::kConstant,
                                      ArrivalKind::kBursts};
    workload.arrivals.kind = kKinds[number(0, 3)];
    if (workload.arrivals.kind == ArrivalKind::kBursts) workload.arrivals.burst_size = number(1, 50);
    if (number(0, 1) == 1) workload.arrivals.when_full = WhenFull::kRefuse;
    for (std::uint32_t i = 0; i < number(0, 2); ++i) {
      workload.arrivals.profile.push_back({.at = std::chrono::seconds(10 * i), .share = 0.5 * (i + 1)});
    }
    workload.arrivals.max_conversations = number(1, 500);
    if (workload.arrivals.kind == ArrivalKind::kBursty) workload.arrivals.variation = 1 + 19 * random_.uniform();
  }

  HttpLimitsSpec http_limits() {
    return {.connections = number(1, 1'000'000),
            .connections_per_address = number(0, 1'000'000),
            .head_bytes = number(1'024, 1 << 20),
            .head_timeout = duration(10'000'000),
            .body_timeout = duration(10'000'000),
            .idle_timeout = duration(10'000'000),
            .least_read_rate = number(0, 1 << 20)};
  }

  WorkerSpec worker(const std::string& name) {
    WorkerSpec w;
    w.name = name;
    w.model = text();
    w.http = {"127.0.0.1", number<std::uint16_t>(0, 32'767)};
    w.admin = {"::1", number<std::uint16_t>(32'768, 65'535)};
    if (number(0, 1) == 1) w.tls = {.certificate = "/tls/w.pem", .key = "/tls/w.key"};
    if (number(0, 1) == 1) w.admin_tls = {.certificate = "/tls/a.pem", .key = "/tls/a.key"};
    if (number(0, 1) == 1) w.api_key_file = "/keys/of workers.txt";
    if (number(0, 1) == 1) w.http_limits = http_limits();
    if (number(0, 1) == 1) w.max_body_bytes = number(1'024, 1 << 30);
    if (number(0, 1) == 1) w.cors.origins = {"https://chat.example:8443", "http://localhost:3000"};
    w.kv_events_port = number<std::uint16_t>(0, 65'535);
    w.kv_replay_port = number<std::uint16_t>(0, 65'535);
    if (number(0, 1) == 1) w.kv_events_topic = text();
    if (number(0, 1) == 1) w.kv_events_buffer = number(1, 1'000'000);
    w.block_size = number(1, 256);
    w.kv_blocks = number(1'000, 100'000);
    w.max_batch_size = number(1, 500);
    w.max_num_tokens = number(500, 8'192);
    w.max_model_len = number(2, 1'000);
    w.max_waiting = number(1, 5'000);
    w.max_steps_in_flight = number(1, 2);
    w.admission = number(0, 1) == 1 ? AdmissionKind::kGreedy : AdmissionKind::kReserveToCompletion;
    w.prefix_deferral = number(0, 1) == 1;
    w.prefix_when_planned = number(0, 1) == 1;
    w.long_prefill_token_threshold = number(0, 1) * number(1, w.max_model_len);
    if (number(0, 1) == 1) describe_gpu(w);
    if (number(0, 1) == 1) w.speculation = speculation();
    w.time_scale = 0.001 + 1'000 * random_.uniform();
    if (!w.profile)
      w.step_time = {duration(), duration(), duration(), 1e-4 + 1e6 * random_.uniform(),
                     number(0, 1) * 1e3 * random_.uniform()};
    w.output_length = {1 + 1'000 * random_.uniform(), 1'000 * random_.uniform()};
    return w;
  }

  /// The same with a list of models.
  GatewaySpec gateway_of_models() {
    GatewaySpec g = gateway();
    const auto count = number(1, 3);
    for (std::uint32_t i = 0; i < count; ++i) {
      ServedModelSpec m = gateway();
      const std::string suffix = "-" + std::to_string(i);
      m.model += suffix;
      for (std::string& alias : m.model_aliases) alias += suffix;
      for (UpstreamSpec& worker : m.workers) {
        worker.name += suffix;
        worker.url.insert(worker.url.rfind(':'), std::to_string(i));
      }
      for (WorkerGroupSpec& group : m.worker_groups) group.name += suffix;
      if (!m.record.file.empty()) m.record.file = "/r" + suffix + ".jsonl";
      g.models.push_back(std::move(m));
    }
    static_cast<ServedModelSpec&>(g) = {};
    return g;
  }

  GatewaySpec gateway() {
    GatewaySpec g;
    if (number(0, 1) == 1)
      g.peers = {.nats = "nats://h:4222,tls://g:4222",
                 .group = "llm",
                 .name = number(0, 1) == 1 ? "a" : "",
                 .token_file = number(0, 1) == 1 ? "/token" : "",
                 .tls = {.ca = number(0, 1) == 1 ? "/ca.pem" : ""},
                 .patience = std::chrono::milliseconds(number(1'500, 9'000))};
    g.http.port = number<std::uint16_t>(0, 32'767);
    g.admin = {"10.0.0.1", number<std::uint16_t>(32'768, 65'535)};
    if (number(0, 1) == 1) g.cors.origins = {"*"};
    if (number(0, 1) == 1) g.tls = {.certificate = "/tls/a.pem", .key = "/tls/a.key"};
    if (number(0, 1) == 1) {
      g.admin_tls = {
          .certificate = "/tls/b.pem",
          .key = "/tls/b.key",
          .client_ca = "/tls/ca.pem",
          .client_certificates = number(0, 1) == 1 ? ClientCertificates::kOptional : ClientCertificates::kRequired};
    }
    if (number(0, 1) == 1) g.api_keys = {"/keys/of clients.txt", number(0, 1) == 1 ? "/keys/admin.txt" : ""};
    g.pass_client_keys = number(0, 1) == 1;
    if (number(0, 1) == 1) g.worker_api_key_file = "/keys/worker.txt";
    if (number(0, 1) == 1) g.http_limits = http_limits();
    g.model = text();
    g.mode = static_cast<RoutingMode>(number<int>(0, static_cast<int>(kRoutingModeCount) - 1));
    if (is_simulated_only(g.mode)) g.mode = RoutingMode::kKv;
    g.block_size = number(1, 256);
    const auto workers = number(0, 4);
    for (std::uint32_t i = 0; i < workers; ++i) {
      g.workers.push_back({"w" + std::to_string(i), "http://host:" + std::to_string(number(1, 65'535)), "", ""});
      if (number(0, 1) == 1) g.workers.back().kv_events = "tcp://[::1]:" + std::to_string(number(1, 65'535));
      if (number(0, 1) == 1) g.workers.back().limits.max_batch_size = number(1, 1'000'000);
      if (number(0, 1) == 1) g.workers.back().limits.kv_blocks = number(1, 1'000'000'000);
      if (number(0, 1) == 1) g.workers.back().limits.max_num_tokens = number(1, 100'000'000);
      if (number(0, 1) == 1) {
        g.workers.back().url.insert(4, "s");
        if (number(0, 1) == 1) g.workers.back().tls = {.ca = "/tls/ca.pem", .server_name = "gpu.example"};
        if (number(0, 1) == 1) g.workers.back().tls.certificate = g.workers.back().tls.key = "/tls/own.pem";
      }
      if (number(0, 1) == 1) g.workers.back().api_key_file = "/keys/w" + std::to_string(i);
      if (!g.workers.back().kv_events.empty() && number(0, 1) == 1) g.workers.back().kv_replay = "tcp://h:1";
    }
    for (std::uint32_t i = 0; i < number(0, 2); ++i) {
      WorkerGroupSpec group;
      group.name = "g" + std::to_string(i);
      group.dns_name = "_http._tcp.example";
      group.services = number(0, 1) == 1;
      if (!group.services) group.port = number<std::uint16_t>(1, 65'535);
      if (number(0, 1) == 1) group.dns_server = "10.0.0.1:53";
      group.interval = duration(100'000'000);
      group.https = number(0, 1) == 1;
      if (number(0, 2) == 0) {
        const std::uint16_t port = number(0, 1) == 1 ? std::uint16_t{8'000} : std::uint16_t{0};
        const bool follows_pods = number(0, 1) == 1;
        group = {.name = group.name,
                 .kubernetes = KubernetesSourceSpec{.service = "vllm",
                                                    .name_space = number(0, 1) == 1 ? "llm" : "",
                                                    .port_name = port == 0 && number(0, 1) == 1 ? "http" : "",
                                                    .pods = follows_pods ? "app in (a, b)" : "",
                                                    .role = follows_pods && number(0, 1) == 1 ? "decode" : "",
                                                    .kubeconfig = number(0, 1) == 1 ? "/kube/config" : ""},
                 .dns_name = "",
                 .dns_server = "",
                 .port = port,
                 .https = group.https};
      }
      if (group.https && number(0, 1) == 1) group.tls.ca = "/tls/ca.pem";
      if (number(0, 1) == 1) group.kv_events_port = number<std::uint16_t>(1, 65'535);
      if (group.kv_events_port != 0) group.kv_replay_port = number<std::uint16_t>(0, 65'535);
      if (number(0, 1) == 1) group.limits.max_batch_size = number(1, 1'000'000);
      if (number(0, 1) == 1) group.api_key_file = "/keys/group";
      g.worker_groups.push_back(group);
    }
    if (number(0, 1) == 1) g.max_workers = number(4, 4'096);
    if (number(0, 1) == 1) g.model_aliases = {"an \"alias\"", "b: c"};
    g.drain_timeout = duration(0);
    if (number(0, 1) == 1) g.tokenizer = "/models/m" + std::to_string(number(0, 9));
    g.upstream_timeout = duration(1'000'000);
    g.connect_timeout = duration(1'000'000);
    g.health_interval = duration(10'000'000);
    g.doubt_interval = duration(10'000'000);
    g.threads = number(0, 64);
    g.max_in_flight = number(1, 100'000);
    g.max_retries = number(0, 100);
    if (number(0, 1) == 1) g.retry_budget = {random_.uniform(), 100 * random_.uniform(), 100, 100 * random_.uniform()};
    if (number(0, 1) == 1) {
      g.ejection.failures_in_a_row = number(0, 100);
      g.ejection.failure_share = 0.01 + 0.99 * random_.uniform();
      g.ejection.most_of_fleet = random_.uniform();
      g.ejection.window = duration(1'000'000);
      g.ejection.longest_time = g.ejection.time + duration(0);
    }
    if (number(0, 1) == 1) g.admission.enabled = number(0, 1) == 1;
    if (number(0, 1) == 1) g.admission.max_wait = duration(10'000'000);
    if (number(0, 1) == 1) g.admission.standing_wait = std::min(g.admission.max_wait, duration(10'000'000));
    if (number(0, 1) == 1) g.hold = {number(0, 1) == 1, duration(1'000'000)};
    if (number(0, 1) == 1)
      g.migration = {number(0, 1) == 1, number(1, 100), number(1, 1'000'000), number<std::uint64_t>(1'024, 1LL << 40)};
    g.model_interval = duration(10'000'000);
    g.silence_timeout = duration(10'000'000);
    g.stream_idle_timeout = duration(0);
    g.stream_keepalive = duration(0);
    g.send_priority = true;
    g.max_body_bytes = number<std::uint64_t>(1'024, 1LL << 40);
    g.seed = number<std::uint64_t>(0, 1LL << 62);
    if (number(0, 1) == 1) g.record = record();
    g.latency_prior = {duration(), duration(), duration(), 1e-4 + 1e6 * random_.uniform(),
                       number(0, 1) * 1e3 * random_.uniform()};
    return g;
  }

  DeploymentSpec deployment() {
    DeploymentSpec d;
    d.name = "d" + std::to_string(number(0, 9));
    d.gateway = gateway();
    d.gateway.api_keys = {};  // a deployment takes none, and no TLS
    d.gateway.tls = d.gateway.admin_tls = {};
    d.gateway.workers.clear();
    const auto count = number(1, 4);
    for (std::uint32_t i = 0; i < count; ++i) {
      d.workers.push_back(worker("w" + std::to_string(i)));
      d.workers.back().tls = d.workers.back().admin_tls = {};
      d.workers.back().api_key_file = {};
      d.workers.back().model = d.gateway.model;
      d.workers.back().tokenizer = d.gateway.tokenizer;
      d.workers.back().block_size = d.gateway.block_size;
      if (!d.workers.back().open.kv_blocks) d.workers.back().kv_blocks = 100'000;
      if (!d.workers.back().open.max_model_len) d.workers.back().max_model_len = 100'000;
    }
    return d;
  }

  std::uint64_t seed_;
  RandomStream random_;
};

TEST_F(RoundTripTest, Worker) {
  for (int round = 0; round < kRounds; ++round) {
    const WorkerSpec spec = worker("w");
    const auto read = read_worker(parsed(to_yaml(spec)));
    ASSERT_TRUE(read.has_value()) << read.error().message << "\n" << to_yaml(spec);
    ASSERT_EQ(*read, spec) << to_yaml(spec);
    const auto nested = read_worker(*parsed("worker:\n" + to_yaml(spec, 2)).get("worker"));
    ASSERT_TRUE(nested.has_value()) << nested.error().message;
    ASSERT_EQ(*nested, spec);
  }
}

TEST_F(RoundTripTest, Gateway) {
  for (int round = 0; round < kRounds; ++round) {
    const GatewaySpec spec = number(0, 1) == 1 ? gateway() : gateway_of_models();
    const auto read = read_gateway(parsed(to_yaml(spec)));
    ASSERT_TRUE(read.has_value()) << read.error().message << "\n" << to_yaml(spec);
    ASSERT_EQ(*read, spec) << to_yaml(spec);
  }
}

TEST_F(RoundTripTest, Sweep) {
  for (int round = 0; round < kRounds; ++round) {
    SweepSpec spec;
    spec.name = "s" + std::to_string(round);
    spec.deployment = deployment();
    spec.deployment.gateway.max_in_flight = 100'000;
    spec.workload.seed = number<std::uint64_t>(0, 1LL << 62);
    spec.workload.target_rps = 0.001 + 100 * random_.uniform();
    spec.workload.request_timeout = duration(1'000'000);
    spec.workload.max_tokens = number(1, 2'000);
    spec.workload.ignore_eos = number(0, 1) == 1;
    if (number(0, 1) == 1) {
      spec.workload.prefix_groups = number(1, 100);
      spec.workload.prefix_tokens = number(1, 1'000);
      spec.workload.prefix_skew = 5 * random_.uniform();
    }
    spec.method.warmup = duration();
    spec.method.snapshot_interval = duration(10'000'000);
    spec.method.window = std::min(spec.method.snapshot_interval, duration(10'000'000));
    spec.method.drain_timeout = duration(10'000'000);
    spec.method.max_error_pct = 100 * random_.uniform();
    spec.method.repetitions = number(1, 1'000);
    spec.simulation = {.client_hop = duration(0),
                       .gateway_time = duration(0),
                       .worker_hop = duration(0),
                       .kv_event_delay = duration(0),
                       .timeline_period = number(0, 1) == 1 ? duration(1'000'000) : Duration(0),
                       .keep_token_gaps = number(0, 1) == 1,
                       .unstreamed_share = static_cast<double>(number(0, 4)) / 4};
    if (number(0, 1) == 1)
      spec.simulation.gateways =
          number(0, 1) == 1
              ? SimulatedGatewaysSpec{.count = number(1, 64), .hop = duration(0), .loss = random_.uniform()}
              : SimulatedGatewaysSpec{.count = number(1, 64), .exchange = false};
    for (std::uint32_t changes = number(0, 3); changes > 0; --changes) {
      const WorkerSpec& worker = spec.deployment.workers[number(1, 1'000) % spec.deployment.workers.size()];
      WorkerChange change{.at = std::min(duration(0), spec.method.warmup), .worker = worker.name};
      switch (number(0, 2)) {
        case 0:
          change.slowness = 0.001 + 100 * random_.uniform();
          break;
        case 1:
          change.max_num_tokens = worker.max_batch_size + number(0, 1'000);
          break;
        default:
          change.restart = duration(1'000'000);
      }
      spec.simulation.changes.push_back(change);
    }
    if (number(0, 1) == 1) {
      spec.workload.trace = trace();
    } else if (number(0, 1) == 1) {
      open_arrivals(spec.workload);
    } else if (number(0, 1) == 1) {
      spec.method.between_levels = BetweenLevels::kContinue;
    }
    if (number(0, 1) == 1) {
      spec.modes = {RoutingMode::kRandom, RoutingMode::kDynamo};
    } else {
      spec.arms = {{.arm = Arm("a"), .mode = RoutingMode::kKv}, {.arm = Arm("b"), .mode = RoutingMode::kKv}};
    }
    if (number(0, 1) == 1) {
      spec.comparison = {.order = number(0, 1) == 1 ? ArmOrder::kAbba : ArmOrder::kRandom,
                         .caches = number(0, 1) == 1 ? CacheProof::kReset : CacheProof::kNone,
                         .stop_when = StopRule{.metric = "tpot_p50_ms", .half_width = 0.5 + number(0, 9)}};
      spec.method.goodput = {.ttft = duration(1'000), .latency = duration(1'000)};
    }
    if (number(0, 1) == 1) {
      spec.target = {.url = "http://h:1", .admin = "http://h:2", .model = "m", .settle = duration(0), .block_size = 64};
      if (number(0, 1) == 1) {
        spec.target.admin.clear();
        spec.target.dynamo = DynamoTargetSpec{.name = "graph",
                                              .name_space = number(0, 1) == 1 ? "llm" : "",
                                              .kubeconfig = number(0, 1) == 1 ? "/kube/config" : "",
                                              .force = number(0, 1) == 1,
                                              .ready_timeout = duration(1'000'000'000),
                                              .warm_up_requests = number(0, 9)};
        if (number(0, 1) == 1)
          spec.target.dynamo->graph = DynamoGraphSpec{.backend = DynamoBackend::kVllm,
                                                      .image = "registry/vllm-runtime:1",
                                                      .model_path = "/models/m",
                                                      .drafter_path = number(0, 1) == 1 ? "/models/d" : ""};
      }
      spec.target.workers = {{.name = "w", .url = "http://h:3"},
                             {.name = "v", .url = "http://h:4", .admin = "http://h:5"}};
      if (spec.comparison.caches == CacheProof::kRestart) spec.comparison.caches = CacheProof::kNone;
    }
    if (number(0, 1) == 1 && !unfit_for_agents(spec)) {
      spec.agents = {.urls = {"10.0.0.5:9400", "https://[::1]:1"}, .key_file = text(), .ca = "/ca.pem"};
    }
    for (std::uint32_t level = number(1, 9); spec.levels.size() < 4; level += number(1, 9))
      spec.levels.push_back(level);
    spec.output_directory = text();
    const auto read = read_sweep(parsed(to_yaml(spec)), ".");
    ASSERT_TRUE(read.has_value()) << read.error().message << "\n" << to_yaml(spec);
    ASSERT_EQ(*read, spec) << to_yaml(spec);
  }
}

}  // namespace
}  // namespace kvist::spec::round_trip_test
