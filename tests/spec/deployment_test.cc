#include "kvist/spec/deployment.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/parsed.h"

namespace kvist::spec::deployment_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(WorkerSpecTest, AnEmptyMappingGivesTheDefaults) {
  EXPECT_EQ(read_worker(parsed("")).value(), WorkerSpec{});
}

TEST(WorkerSpecTest, ReadsEverySetting) {
  const auto worker = read_worker(parsed(R"(
name: gpu-3
model: llama
http: {host: 0.0.0.0, port: 8001}
kv_events_port: 5557
kv_replay_port: 5558
kv_events_topic: kv@10.0.0.1@llama
kv_events_buffer: 500
block_size: 16
kv_blocks: 2000
max_batch_size: 8
max_num_tokens: 512
max_model_len: 4096
max_waiting: 10
max_steps_in_flight: 2
admission: greedy
prefix_deferral: true
time_scale: 10
step_time: {fixed: 20 ms, per_prefill_token: 90 us, per_sequence: 0.05 ms, per_kv_token: 0.04 us, per_prefill_pair: 4.5 ns}
output_length: {mean_tokens: 100, standard_deviation_tokens: 12.5}
)"));
  ASSERT_TRUE(worker.has_value()) << worker.error().message;
  WorkerSpec expected;
  expected.name = "gpu-3";
  expected.model = "llama";
  expected.http = {"0.0.0.0", 8001};
  expected.kv_events_port = 5557;
  expected.kv_replay_port = 5558;
  expected.kv_events_topic = "kv@10.0.0.1@llama";
  expected.kv_events_buffer = 500;
  expected.block_size = 16;
  expected.kv_blocks = 2000;
  expected.max_batch_size = 8;
  expected.max_num_tokens = 512;
  expected.max_model_len = 4096;
  expected.max_waiting = 10;
  expected.max_steps_in_flight = 2;
  expected.admission = AdmissionKind::kGreedy;
  expected.prefix_deferral = true;
  expected.time_scale = 10;
  expected.step_time = {std::chrono::milliseconds(20), std::chrono::microseconds(90), std::chrono::microseconds(50), 40,
                        4.5};
  expected.output_length = {100, 12.5};
  EXPECT_EQ(*worker, expected);
}

TEST(WorkerSpecTest, TheTopicOfKvEventsMayBeEmpty) {
  EXPECT_EQ(read_worker(parsed("kv_events_topic: ''")).value(), WorkerSpec{});
  EXPECT_THAT(to_yaml(WorkerSpec{}), Not(HasSubstr("kv_events_topic")));
}

TEST(WorkerSpecTest, ErrorsNameLineAndSetting) {
  EXPECT_THAT(message(read_worker(parsed("name: a\nblock_sice: 16\n"))),
              AllOf(StartsWith("test.yaml:2: block_sice: unknown key"), HasSubstr("block_size")));
  EXPECT_THAT(message(read_worker(parsed("\nblock_size: 0\n"))),
              StartsWith("test.yaml:2: block_size: 0 is out of range"));
  EXPECT_THAT(message(read_worker(parsed("step_time:\n  fixed: 20\n"))),
              StartsWith("test.yaml:2: step_time.fixed: \"20\" needs a unit"));
  EXPECT_THAT(message(read_worker(parsed("step_time:\n  fixd: 20 ms\n"))), StartsWith("test.yaml:2: step_time.fixd: "));
  EXPECT_THAT(message(read_worker(parsed("http:\n  port: 70000\n"))), StartsWith("test.yaml:2: http.port: "));
  EXPECT_THAT(message(read_worker(parsed("name: a/b\n"))), StartsWith("test.yaml:1: name: \"a/b\" is not a name"));
  EXPECT_THAT(message(read_worker(parsed("model: ''\n"))), StartsWith("test.yaml:1: model: must not be empty"));
  EXPECT_THAT(message(read_worker(parsed("kv_events_topic: " + std::string(257, 'x') + "\n"))),
              StartsWith("test.yaml:1: kv_events_topic: 257 bytes"));
  EXPECT_THAT(message(read_worker(parsed("step_time: {fixed: 0 s, per_sequence: 0 s}\n"))),
              HasSubstr("a step must take time"));
}

TEST(WorkerSpecTest, AProfileDecidesWhatTheFileLeavesOut) {
  const auto worker = read_worker(parsed(R"(
max_steps_in_flight: 1
profile: {gpu: h100, model: llama-3.1-8b-fp8, engine: vllm, tensor_parallel: 2, kv_dtype: fp16, memory_fraction: 0.85,
          memory_meaning: of_free, set: {graphs.padding: true, launch.fixed: 4.5}}
)"));
  ASSERT_TRUE(worker.has_value()) << worker.error().message;
  EXPECT_EQ(worker->profile, (ProfileSpec{.gpu = "h100",
                                          .model = "llama-3.1-8b-fp8",
                                          .engine = "vllm",
                                          .tensor_parallel = 2,
                                          .kv_dtype = KvDtype::kFp16,
                                          .memory_fraction = 0.85,
                                          .memory_meaning = MemoryMeaning::kOfFree,
                                          .file = "",
                                          .set = {{"graphs.padding", 1}, {"launch.fixed", 4.5}}}));
  EXPECT_EQ(worker->open, (OpenSettings{.kv_blocks = true,
                                        .max_model_len = true,
                                        .max_steps_in_flight = false,
                                        .admission = true,
                                        .prefix_deferral = true,
                                        .prefix_when_planned = true}));
  const auto fixed =
      read_worker(parsed("kv_blocks: 100\nprefix_deferral: false\nprefix_when_planned: true\nprofile: {}\n"));
  ASSERT_TRUE(fixed.has_value()) << fixed.error().message;
  EXPECT_EQ(fixed->max_model_len, 3'200U) << "the KV memory is known, so the length is";
  EXPECT_FALSE(fixed->open.kv_blocks || fixed->open.max_model_len || fixed->open.prefix_deferral ||
               fixed->open.prefix_when_planned);
  EXPECT_TRUE(fixed->prefix_when_planned);
  EXPECT_TRUE(fixed->open.admission);
  EXPECT_EQ(read_worker(parsed("")).value().open, OpenSettings{}) << "nothing is open without a profile";
}

TEST(WorkerSpecTest, ALengthBeyondAnOpenMemoryIsCheckedLater) {
  const auto worker = read_worker(parsed("max_model_len: 1000000\nprofile: {}\n"));
  ASSERT_TRUE(worker.has_value()) << worker.error().message;
  EXPECT_EQ(worker->max_model_len, 1'000'000U);
  EXPECT_FALSE(worker->open.max_model_len);
}

TEST(WorkerSpecTest, ACpuEngineLeavesToTheModelWhatTheFileLeavesOut) {
  const auto worker = read_worker(
      parsed("cpu: {model: models/llama, threads: 3, weights: bf16, kv_dtype: f16, memory: 6 GiB}\n"), "/here");
  ASSERT_TRUE(worker.has_value()) << worker.error().message;
  EXPECT_EQ(worker->cpu, (CpuEngineSpec{.model = "/here/models/llama",
                                        .threads = 3,
                                        .weights = WeightType::kBf16,
                                        .kv_dtype = CpuKvType::kF16,
                                        .memory_bytes = 6ULL << 30}));
  EXPECT_EQ(worker->tokenizer, "/here/models/llama") << "its own";
  EXPECT_EQ(worker->max_num_tokens, 256U);
  EXPECT_EQ(worker->open, (OpenSettings{.kv_blocks = true, .max_model_len = true, .prefix_deferral = true}));
  EXPECT_EQ(read_worker(parsed(to_yaml(*worker))).value(), *worker) << to_yaml(*worker);
  const auto given = read_worker(parsed("kv_blocks: 50\nmax_num_tokens: 99\ntokenizer: /t\ncpu: {model: /m}\n"));
  ASSERT_TRUE(given.has_value()) << given.error().message;
  EXPECT_EQ(given->tokenizer, "/t");
  EXPECT_EQ(given->max_num_tokens, 99U);
  EXPECT_EQ(read_worker(parsed(to_yaml(*given))).value(), *given) << to_yaml(*given);
}

TEST(WorkerSpecTest, TheFormatOfToolCallsIsNamed) {
  const auto worker = read_worker(parsed("tokenizer: /t\ntool_parser: llama3_json\n"));
  ASSERT_TRUE(worker.has_value()) << worker.error().message;
  EXPECT_EQ(worker->tool_parser, ToolCallFormat::kLlama3Json);
  EXPECT_EQ(read_worker(parsed(to_yaml(*worker))).value(), *worker) << to_yaml(*worker);
  EXPECT_EQ(read_worker(parsed("tool_parser: hermes\ncpu: {model: /m}\n")).value().tool_parser,
            ToolCallFormat::kHermes);
  EXPECT_THAT(message(read_worker(parsed("tool_parser: hermes\n"))), HasSubstr("give tokenizer, or cpu"));
  EXPECT_THAT(message(read_worker(parsed("tokenizer: /t\ntool_parser: qwen\n"))),
              HasSubstr("expected hermes or llama3_json or mistral"));
}

TEST(WorkerSpecTest, SpecialTokensOfUsersAreTextUnlessToldOtherwise) {
  EXPECT_FALSE(WorkerSpec{}.special_tokens_in_messages);
  const auto worker = read_worker(parsed("tokenizer: /t\nspecial_tokens_in_messages: true\n"));
  ASSERT_TRUE(worker.has_value()) << worker.error().message;
  EXPECT_TRUE(worker->special_tokens_in_messages);
  EXPECT_EQ(read_worker(parsed(to_yaml(*worker))).value(), *worker) << to_yaml(*worker);
}

TEST(WorkerSpecTest, ErrorsInACpuEngine) {
  EXPECT_THAT(message(read_worker(parsed("cpu: {threads: 2}\n"))), HasSubstr("cpu: model is missing"));
  EXPECT_THAT(message(read_worker(parsed("cpu: {model: m}\ntime_scale: 2\n"))),
              AllOf(StartsWith("test.yaml:2: time_scale: "), HasSubstr("leave time_scale or cpu out")));
  EXPECT_THAT(message(read_worker(parsed("cpu: {model: m, weights: int4}\n"))), HasSubstr("as_stored or bf16 or f32"));
  EXPECT_THAT(message(read_worker(parsed("cpu: {model: m, memory: 5}\n"))), HasSubstr("cpu.memory"));
}

TEST(WorkerSpecTest, ErrorsInAProfile) {
  EXPECT_THAT(message(read_worker(parsed("profile:\n  gpus: h200\n"))),
              AllOf(StartsWith("test.yaml:2: profile.gpus: unknown key"), HasSubstr("tensor_parallel")));
  EXPECT_THAT(message(read_worker(parsed("profile:\n  tensor_parallel: 3\n"))),
              StartsWith("test.yaml:2: profile.tensor_parallel: expected 1, 2 or 4 GPUs per worker, got 3"));
  EXPECT_THAT(message(read_worker(parsed("profile:\n  tensor_parallel: 8\n"))), HasSubstr("out of range"));
  EXPECT_THAT(message(read_worker(parsed("profile:\n  memory_fraction: 90\n"))),
              StartsWith("test.yaml:2: profile.memory_fraction: "));
  EXPECT_THAT(message(read_worker(parsed("profile:\n  memory_meaning: free\n"))),
              HasSubstr("expected engine or of_total or of_free"));
  EXPECT_THAT(message(read_worker(parsed("profile:\n  set: {a: b}\n"))), StartsWith("test.yaml:2: profile.set.a: "));
  EXPECT_THAT(message(read_worker(parsed("profile: {}\nstep_time: {fixed: 1 ms}\n"))),
              AllOf(StartsWith("test.yaml:2: step_time: "), HasSubstr("leave step_time or the profile out")));
  EXPECT_THAT(message(read_worker(parsed("admission: lazy\n"))),
              StartsWith("test.yaml:1: admission: expected reserve_to_completion or greedy, got \"lazy\""));
  EXPECT_THAT(message(read_worker(parsed("prefix_deferral: 3\n"))), StartsWith("test.yaml:1: prefix_deferral: "));
  EXPECT_THAT(message(read_worker(parsed("step_time: {per_prefill_pair: 2 us}\n"))), HasSubstr("at most 1 us"));
  EXPECT_THAT(
      message(read_worker(parsed("max_model_len: 1000\nlong_prefill_token_threshold: 1001\n"))),
      AllOf(StartsWith("test.yaml:2: long_prefill_token_threshold: "), HasSubstr("above max_model_len (1000)")));
  EXPECT_THAT(
      message(read_worker(parsed("prefix_when_planned: true\ncpu: {model: m}\n"))),
      AllOf(StartsWith("test.yaml:1: prefix_when_planned: "), HasSubstr("leave prefix_when_planned or cpu out")));
}

TEST(WorkerSpecTest, ReadsSpeculation) {
  const auto list = read_worker(parsed(
      "speculation: {drafter: llama-3.1-8b-fp8, draft_length: adaptive, draft_tokens: 5, acceptance: [0.8, 0.5]}"));
  ASSERT_TRUE(list.has_value()) << list.error().message;
  EXPECT_EQ(list->speculation, (SpeculationSpec{.enabled = true,
                                                .drafter = "llama-3.1-8b-fp8",
                                                .draft_length = DraftLength::kAdaptive,
                                                .draft_tokens = 5,
                                                .acceptance = {0.8, 0.5}}));
  const auto number = read_worker(parsed("speculation: {acceptance: 0.02}"));
  ASSERT_TRUE(number.has_value()) << number.error().message;
  EXPECT_TRUE(number->speculation.enabled) << "who describes a drafter wants it";
  EXPECT_EQ(number->speculation.acceptance, std::vector<double>{0.02});
  EXPECT_FALSE(read_worker(parsed("speculation: {enabled: false}")).value().speculation.enabled);
}

TEST(WorkerSpecTest, ErrorsInSpeculation) {
  EXPECT_THAT(message(read_worker(parsed("speculation:\n  draft_length: 4\n"))),
              StartsWith("test.yaml:2: speculation.draft_length: expected fixed or adaptive, got \"4\""));
  EXPECT_THAT(message(read_worker(parsed("speculation:\n  draft_tokens: 16\n"))),
              StartsWith("test.yaml:2: speculation.draft_tokens: 16 is out of range"));
  EXPECT_THAT(message(read_worker(parsed("speculation:\n  acceptance: [0.5, 1.5]\n"))),
              StartsWith("test.yaml:2: speculation.acceptance[1]: "));
  EXPECT_THAT(message(read_worker(parsed("speculation:\n  acceptance: []\n"))),
              AllOf(StartsWith("test.yaml:2: speculation.acceptance: "), HasSubstr("expected 1 to 15")));
}

TEST(WorkerSpecTest, ARequestMustFitTheKvMemory) {
  EXPECT_EQ(message(read_worker(parsed("block_size: 32\nkv_blocks: 100\nmax_model_len: 4096\n"))),
            "test.yaml:3: max_model_len: a request of 4096 tokens does not fit the KV memory: 100 blocks of 32 tokens "
            "hold 3200");
  EXPECT_EQ(read_worker(parsed("block_size: 32\nkv_blocks: 100\n")).value().max_model_len, 3200U)
      << "a length nobody asked for shrinks to what fits";
}

TEST(WorkerSpecTest, EachSequenceNeedsATokenPerStep) {
  EXPECT_THAT(message(read_worker(parsed("max_batch_size: 64\nmax_num_tokens: 32\n"))),
              AllOf(StartsWith("test.yaml:2: max_num_tokens: "), HasSubstr("max_batch_size (64)")));
}

TEST(GatewaySpecTest, ReadsEverySetting) {
  const auto gateway = read_gateway(parsed(R"(
http: {port: 8000}
model: llama
mode: KV-Aware
block_size: 16
workers:
  - name: a
    url: "http://10.0.0.1:8001"
    kv_events: "tcp://10.0.0.1:5557"
    kv_replay: "tcp://10.0.0.1:5558"
    limits: {max_batch_size: 48, kv_blocks: 9000}
  - {url: "http://10.0.0.2:8001"}
upstream_timeout: 1 min
connect_timeout: 500 ms
health_interval: 2 s
doubt_interval: 300 ms
threads: 4
max_in_flight: 100
max_retries: 0
admission: {enabled: false, max_wait: 5 s, standing_wait: 250 ms}
hold: {enabled: true, max_wait: 7 s}
scaling: {utilisation: 0.6, window: 20 s}
retry_budget: {per_request: 0.5, per_second: 2, most: 30, at_start: 10}
ejection: {failures_in_a_row: 3, failure_share: 0.25, least_answers: 8, window: 10 s, time: 1 s, longest_time: 1 min}
migration: {enabled: false, max: 2, max_tokens: 1000, max_request: 64 KiB}
model_interval: 7 s
silence_timeout: 4 s
stream_idle_timeout: 90 s
stream_keepalive: 15 s
send_priority: true
max_body: 1 MiB
seed: 9
latency_prior: {fixed: 9 ms, per_prefill_token: 20 us}
tier_weights: {cpu: 0.9, disk: 0.5, remote: 0}
objective: {ttft: 2.5}
warm_up: {requests: 4, until_answers: 8}
session_affinity: {form: soft, ttl: 5 min, worth: 2 s, max_sessions: 1000}
record: {file: a.jsonl, max_file: 1 MiB, files: 2}
)"));
  ASSERT_TRUE(gateway.has_value()) << gateway.error().message;
  GatewaySpec expected;
  expected.http.port = 8000;
  expected.admin.port = 8001;  // not given: the one after http's
  expected.model = "llama";
  expected.mode = RoutingMode::kKv;
  expected.block_size = 16;
  expected.workers = {{"a", "http://10.0.0.1:8001", "tcp://10.0.0.1:5557", "tcp://10.0.0.1:5558", {48, 9'000, 0}},
                      {"worker-1", "http://10.0.0.2:8001", "", "", {}}};
  expected.upstream_timeout = std::chrono::minutes(1);
  expected.connect_timeout = std::chrono::milliseconds(500);
  expected.health_interval = std::chrono::seconds(2);
  expected.doubt_interval = std::chrono::milliseconds(300);
  expected.threads = 4;
  expected.max_in_flight = 100;
  expected.max_retries = 0;
  expected.retry_budget = {.per_request = 0.5, .per_second = 2, .most = 30, .at_start = 10};
  expected.ejection = {.failures_in_a_row = 3,
                       .failure_share = 0.25,
                       .least_answers = 8,
                       .window = std::chrono::seconds(10),
                       .time = std::chrono::seconds(1),
                       .longest_time = std::chrono::minutes(1)};
  expected.admission = {
      .enabled = false, .max_wait = std::chrono::seconds(5), .standing_wait = std::chrono::milliseconds(250)};
  expected.hold = {.enabled = true, .max_wait = std::chrono::seconds(7)};
  expected.scaling = {.utilisation = 0.6, .window = std::chrono::seconds(20)};
  expected.migration = {.enabled = false, .max = 2, .max_tokens = 1'000, .max_request_bytes = 64U << 10};
  expected.model_interval = std::chrono::seconds(7);
  expected.silence_timeout = std::chrono::seconds(4);
  expected.stream_idle_timeout = std::chrono::seconds(90);
  expected.stream_keepalive = std::chrono::seconds(15);
  expected.send_priority = true;
  expected.max_body_bytes = 1ULL << 20;
  expected.seed = 9;
  expected.latency_prior.fixed = std::chrono::milliseconds(9);
  expected.latency_prior.per_prefill_token = std::chrono::microseconds(20);
  expected.tier_weights = {.cpu = 0.9, .disk = 0.5, .remote = 0};
  expected.objective = {.ttft = 2.5};
  expected.warm_up = {.requests = 4, .until_answers = 8};
  expected.session_affinity = {.form = SessionAffinitySpec::Form::kSoft,
                               .ttl = std::chrono::minutes(5),
                               .worth = std::chrono::seconds(2),
                               .max_sessions = 1'000};
  expected.record = {.file = "a.jsonl", .max_file_bytes = 1U << 20, .files = 2};
  EXPECT_EQ(*gateway, expected);
}

TEST(GatewaySpecTest, AdministrationHasAListenerOfItsOwn) {
  const auto admin = [](const char* text) { return read_gateway(parsed(text)).value().admin; };
  EXPECT_EQ(admin("model: m\n"), (Endpoint{"127.0.0.1", 0}));
  EXPECT_EQ(admin("http: {host: 0.0.0.0, port: 80}\n"), (Endpoint{"127.0.0.1", 81}));
  EXPECT_EQ(admin("http: {port: 80}\nadmin: {host: 10.0.0.1}\n"), (Endpoint{"10.0.0.1", 81}));
  EXPECT_EQ(admin("http: {port: 80}\nadmin: {port: 0}\n"), (Endpoint{"127.0.0.1", 0}));
  EXPECT_EQ(admin("http: {port: 65535}\n"), (Endpoint{"127.0.0.1", 0}));
  EXPECT_THAT(message(read_gateway(parsed("http: {port: 80}\nadmin: {port: 80}\n"))),
              StartsWith("test.yaml:2: admin: port 80 is that of http: "));
  EXPECT_THAT(message(read_worker(parsed("http: {port: 80}\nadmin: {port: 80}\n"))),
              StartsWith("test.yaml:2: admin: "));
  EXPECT_EQ(read_worker(parsed("http: {port: 8000}\n")).value().admin.port, 0);
  EXPECT_THAT(message(read_gateway(parsed("cors: {origins: [Chat.example]}\n"))),
              AllOf(StartsWith("test.yaml:1: cors.origins[0]: "), HasSubstr("https://chat.example")));
}

TEST(DeploymentSpecTest, TalksPlainHttpWithoutKeys) {
  const auto refusal = [](const std::string& text) { return message(read_deployment(parsed(text))); };
  EXPECT_THAT(refusal("workers: {count: 1}\ngateway: {api_keys: keys.txt}\n"),
              AllOf(StartsWith("test.yaml:2: gateway.api_keys: "), HasSubstr("use `kvist gateway`")));
  EXPECT_THAT(refusal("workers: {count: 1}\ngateway: {tls: {certificate: a, key: b}}\n"),
              AllOf(StartsWith("test.yaml:2: gateway.tls: "), HasSubstr("plain HTTP")));
  EXPECT_THAT(refusal("workers: [{name: w, tls: {certificate: a, key: b}}]\n"), HasSubstr("w has tls"));
  EXPECT_THAT(refusal("workers: [{name: w, admin_tls: {certificate: a, key: b}}]\n"), HasSubstr("w has tls"));
  EXPECT_THAT(refusal("workers: [{name: w, api_key_file: keys.txt}]\n"), HasSubstr("w has api_key_file"));
}

TEST(GatewaySpecTest, TlsIsWholeOrRefused) {
  const auto tls = [](const char* text) { return read_gateway(parsed(text), "/etc/kvist"); };
  const auto good = tls("tls: {certificate: a.pem, key: /k/a.key, client_ca: ca.pem}\n");
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_EQ(good->tls.certificate, "/etc/kvist/a.pem");
  EXPECT_EQ(good->tls.key, "/k/a.key");
  EXPECT_EQ(good->tls.client_certificates, ClientCertificates::kRequired);
  EXPECT_THAT(message(tls("tls: {certificate: a.pem}\n")), HasSubstr("tls: needs both certificate and key"));
  EXPECT_THAT(message(tls("tls: {certificate: a, key: b, client_certificates: required}\n")), HasSubstr("client_ca"));
  EXPECT_THAT(message(tls("tls: {certificate: a, key: b, client_ca: c, client_certificates: none}\n")),
              HasSubstr("both are needed, or neither"));
  EXPECT_THAT(message(tls("worker_tls: {certificate: a}\n")), HasSubstr("certificate and key"));
  EXPECT_THAT(message(tls("workers: [{url: 'http://a:1', tls: {ca: x}}]\n")), HasSubstr("begins with https://"));
  EXPECT_EQ(tls("workers: [{url: 'https://a:1', tls: {ca: x}}]\n").value().workers[0].tls.ca, "/etc/kvist/x");
  EXPECT_THAT(message(tls("workers: [{url: 'ftp://a:1'}]\n")), HasSubstr("expected http://host:port"));
}

TEST(GatewaySpecTest, ErrorsAboutWorkersThatFail) {
  EXPECT_THAT(message(read_gateway(parsed("retry_budget: {per_requests: 1}\n"))),
              AllOf(StartsWith("test.yaml:1: retry_budget.per_requests: unknown key"), HasSubstr("per_request")));
  EXPECT_THAT(message(read_gateway(parsed("retry_budget: {most: 10, at_start: 11}\n"))),
              AllOf(StartsWith("test.yaml:1: retry_budget: "), HasSubstr("at_start (11) is above most (10)")));
  EXPECT_THAT(message(read_gateway(parsed("retry_budget: {per_second: -1}\n"))),
              StartsWith("test.yaml:1: retry_budget.per_second: "));
  EXPECT_THAT(message(read_gateway(parsed("ejection:\n  failure_share: 1.5\n"))),
              StartsWith("test.yaml:2: ejection.failure_share: "));
  EXPECT_THAT(message(read_gateway(parsed("ejection: {time: 10 s, longest_time: 5 s}\n"))),
              HasSubstr("time (10 s) is above longest_time (5 s)"));
  EXPECT_THAT(message(read_gateway(parsed("admission: {max_wait: 0 s}\n"))),
              StartsWith("test.yaml:1: admission.max_wait: "));
  EXPECT_THAT(message(read_gateway(parsed("admission: {max_wait: 2 s, standing_wait: 3 s}\n"))),
              HasSubstr("is above max_wait"));
  EXPECT_THAT(message(read_gateway(parsed("hold: {max_wait: 0 s}\n"))), StartsWith("test.yaml:1: hold.max_wait: "));
  EXPECT_THAT(message(read_gateway(parsed("hold: {most: 1 s}\n"))), HasSubstr("max_wait"));
  EXPECT_THAT(message(read_gateway(parsed("migration: {max: 0}\n"))), StartsWith("test.yaml:1: migration.max: "));
  EXPECT_THAT(message(read_gateway(parsed("migration: {max_request: 5 B}\n"))),
              HasSubstr("migration.max_request: must be at least 1 KiB"));
  EXPECT_THAT(message(read_gateway(parsed("migration: true\n"))), StartsWith("test.yaml:1: migration: "));
  EXPECT_THAT(message(read_gateway(parsed("silence_timeout: 2\n"))), HasSubstr("\"2\" needs a unit"));
  EXPECT_THAT(message(read_gateway(parsed("silence_timeout: 1 ms\n"))), HasSubstr("must be at least 0.01 s"));
  EXPECT_TRUE(read_gateway(parsed("stream_idle_timeout: 0 s\n"))) << "off";
}

TEST(GatewaySpecTest, ErrorsNameLineAndSetting) {
  EXPECT_THAT(message(read_gateway(parsed("mode: best\n"))),
              AllOf(StartsWith("test.yaml:1: mode: unknown routing mode \"best\""), HasSubstr("round_robin")));
  EXPECT_THAT(message(read_gateway(parsed("workers:\n  - name: a\n"))),
              StartsWith("test.yaml:2: workers[0]: key \"url\" is missing"));
  EXPECT_THAT(message(read_gateway(parsed("workers:\n  - url: localhost:80\n"))),
              StartsWith("test.yaml:2: workers[0].url: expected http://host:port"));
  for (const char* url : {"http://h:80/v1", "http://h:0", "http://h:65536", "http://h:99999", "http://h:", "http://:80",
                          "http://[::1:80", "http://::1:80", "http://[]:80", "http://h?a:80"}) {
    EXPECT_THAT(message(read_gateway(parsed(fmt::format("workers:\n  - url: '{}'\n", url)))),
                HasSubstr("expected http://host:port"))
        << url;
  }
  EXPECT_TRUE(read_gateway(parsed("workers:\n  - url: 'http://[::1]:65535'\n")));
  EXPECT_THAT(message(read_gateway(parsed("workers:\n  - url: http://u:secret@h:80\n"))),
              AllOf(HasSubstr("without a user name"), Not(HasSubstr("secret"))));
  EXPECT_THAT(
      message(read_gateway(parsed("workers:\n- {name: a, url: 'http://h:1'}\n- {name: a, url: 'http://h:2'}\n"))),
      StartsWith("test.yaml:3: workers[1]: two workers are called \"a\""));
  const auto at_one_url = [](const std::string& first, const std::string& second) {
    return read_gateway(
        parsed("workers: [{name: a, url: 'https://h:1'" + first + "}, {name: b, url: 'https://h:1'" + second + "}]\n"));
  };
  EXPECT_TRUE(at_one_url("", ""));
  EXPECT_TRUE(at_one_url(", api_key_file: k", ", api_key_file: k"));
  EXPECT_THAT(message(at_one_url(", api_key_file: k", "")),
              HasSubstr("workers a and b have one url, https://h:1, but another api_key_file"));
  EXPECT_THAT(message(at_one_url(", tls: {ca: x}", ", tls: {ca: y}")), HasSubstr("but another tls"));
  EXPECT_THAT(message(read_gateway(parsed("workers:\n- {url: 'http://h:1', kv_replay: 'tcp://h:2'}\n"))),
              HasSubstr("kv_replay without kv_events"));
  EXPECT_THAT(message(read_gateway(parsed("workers:\n- {url: 'http://h:1', limits: {max_batch_size: 0}}\n"))),
              StartsWith("test.yaml:2: workers[0].limits.max_batch_size: "));
  EXPECT_THAT(message(read_gateway(parsed("workers:\n- {url: 'http://h:1', limits: {slots: 4}}\n"))),
              HasSubstr("slots"));
  EXPECT_THAT(message(read_gateway(parsed("max_body: 100\n"))), StartsWith("test.yaml:1: max_body: "));
  EXPECT_THAT(message(read_gateway(parsed("record: traffic.csv\n"))),
              AllOf(StartsWith("test.yaml:1: record: "), HasSubstr("does not end in .jsonl")));
  EXPECT_THAT(message(read_gateway(parsed("record: {files: 2}\n"))),
              AllOf(StartsWith("test.yaml:1: record: "), HasSubstr("\"file\" is missing")));
  EXPECT_THAT(message(read_gateway(parsed("record: {file: a.jsonl, max_file: 1 KiB}\n"))),
              StartsWith("test.yaml:1: record.max_file: "));
}

TEST(GatewaySpecTest, LogsAndTraces) {
  const auto gateway = read_gateway(parsed(R"(
log: {format: json, level: error}
access_log: access.log
otlp: {endpoint: "http://c:4318/v1/traces", service_name: s, sample_ratio: 0.5, max_waiting: 9, interval: 2 s, timeout: 3 s}
)"),
                                    "/srv");
  ASSERT_TRUE(gateway) << gateway.error().message;
  EXPECT_EQ(gateway->log, (LogSpec{.format = LogFormat::kJson, .level = LogThreshold::kError}));
  EXPECT_EQ(gateway->access_log.file, "/srv/access.log");
  EXPECT_EQ(gateway->otlp, (OtlpSpec{.endpoint = "http://c:4318/v1/traces",
                                     .service_name = "s",
                                     .sample_ratio = 0.5,
                                     .max_waiting = 9,
                                     .interval = std::chrono::seconds(2),
                                     .timeout = std::chrono::seconds(3)}));
  EXPECT_EQ(read_gateway(parsed(to_yaml(*gateway).c_str())).value(), *gateway);
  EXPECT_EQ(read_gateway(parsed("access_log: stderr\n"), "/srv").value().access_log.file, "stderr");
  EXPECT_EQ(read_gateway(parsed("access_log: \"off\"\n"), "/srv").value().access_log.file, "");
  EXPECT_EQ(read_worker(parsed("log: {level: debug}\n")).value().log.level, LogThreshold::kDebug);
  EXPECT_THAT(message(read_gateway(parsed("log: {format: xml}\n"))), HasSubstr("text or json"));
  EXPECT_THAT(message(read_gateway(parsed("otlp: {service_name: s}\n"))), HasSubstr("/v1/traces"));
  EXPECT_THAT(message(read_gateway(parsed("otlp: {endpoint: 'ftp://c/'}\n"))), HasSubstr("/v1/traces"));
  for (const std::string user : {"me:secret", "secret", "me:sec/secret"}) {
    const std::string why = message(read_gateway(parsed("otlp: {endpoint: 'https://" + user + "@c/v1/traces'}\n")));
    EXPECT_THAT(why, AllOf(HasSubstr("without a user name or password"), Not(HasSubstr("secret"))));
  }
  for (const char* bad : {"Content-Type: text", "'X Y': a", "A: ''", "A: ' a'", "A: \"a\\tb\"", "A: {}",
                          "A: {file: f, b: c}", "A: a, a: b", "A: [secret]"}) {
    const auto refused =
        read_gateway(parsed(fmt::format("otlp: {{endpoint: 'http://c/v1/traces', headers: {{{}}}}}\n", bad).c_str()));
    EXPECT_THAT(message(refused), AllOf(HasSubstr("headers"), Not(HasSubstr("secret")))) << bad;
  }
  const auto keyed =
      read_gateway(parsed("otlp: {endpoint: 'https://c/v1/traces', tls: {ca: ca.pem}, headers: {X-Scope: a b, "
                          "Authorization: {file: collector.key}}}\n"),
                   "/srv");
  ASSERT_TRUE(keyed) << keyed.error().message;
  EXPECT_EQ(keyed->otlp.tls.ca, "/srv/ca.pem");
  EXPECT_EQ(keyed->otlp.headers, (std::vector<OtlpHeader>{{.name = "X-Scope", .value = "a b"},
                                                          {.name = "Authorization", .file = "/srv/collector.key"}}));
  EXPECT_EQ(read_gateway(parsed(to_yaml(*keyed).c_str())).value(), *keyed);
  EXPECT_EQ(parse_log_level("warning").value(), LogThreshold::kWarning);
  EXPECT_FALSE(parse_log_format("JSON"));
}

TEST(GatewaySpecTest, ARecordIsAFileOrAMapping) {
  EXPECT_EQ(read_gateway(parsed("record: traffic.jsonl\n"), "/srv").value().record.file, "/srv/traffic.jsonl");
  EXPECT_EQ(read_gateway(parsed("record: {file: t.jsonl}\n"), "/srv").value().record, RecordSpec{"/srv/t.jsonl"});
}

TEST(DeploymentSpecTest, MayRunInACluster) {
  const auto deployment = read_deployment(parsed(R"(
name: bench
kubernetes: {image: "kvist:1", namespace: llm, kubeconfig: k, field_manager: me, force: true, keep: true, ready_timeout: 3 min,
             models_claim: models, worker: {cpu: 1.5, memory: 8Gi}, gateway: {cpu: 500m}}
workers: {count: 1}
)"),
                                          "/srv");
  ASSERT_TRUE(deployment) << deployment.error().message;
  const KubernetesDeploymentSpec expected{.image = "kvist:1",
                                          .name_space = "llm",
                                          .kubeconfig = "/srv/k",
                                          .field_manager = "me",
                                          .force = true,
                                          .keep = true,
                                          .ready_timeout = std::chrono::minutes(3),
                                          .models_claim = "models",
                                          .worker = {.cpu = "1.5", .memory = "8Gi"},
                                          .gateway = {.cpu = "500m"}};
  EXPECT_EQ(deployment->kubernetes, expected);
  EXPECT_EQ(read_deployment(parsed(to_yaml(*deployment)))->kubernetes, expected);
  const auto refusal = [](const std::string& text) {
    return message(read_deployment(parsed("kubernetes: " + text + "\nworkers: {count: 1}\n")));
  };
  EXPECT_THAT(refusal("{namespace: a}"), HasSubstr("\"image\" is missing"));
  EXPECT_THAT(refusal("{image: a, worker: {memory: 8 GiB}}"), HasSubstr("a quantity as Kubernetes writes them"));
  EXPECT_THAT(refusal("{image: a, worker: {cpu: .5}}"), HasSubstr("kubernetes.worker.cpu"));
  EXPECT_THAT(refusal("{image: a, replicas: 3}"), HasSubstr("replicas"));
}

TEST(DeploymentSpecTest, CountMakesNumberedWorkers) {
  const auto deployment = read_deployment(parsed("workers: {count: 3, kv_blocks: 700, model: m, block_size: 16}\n"));
  ASSERT_TRUE(deployment.has_value()) << deployment.error().message;
  ASSERT_EQ(deployment->workers.size(), 3U);
  EXPECT_EQ(deployment->workers[0].name, "worker-0");
  EXPECT_EQ(deployment->workers[2].name, "worker-2");
  EXPECT_EQ(deployment->workers[2].kv_blocks, 700U);
  EXPECT_EQ(deployment->gateway.model, "m") << "taken from the workers";
  EXPECT_EQ(deployment->gateway.block_size, 16U);
}

TEST(DeploymentSpecTest, ListedWorkersMayDiffer) {
  const auto deployment = read_deployment(parsed(R"(
name: mixed
gateway: {mode: least_loaded, http: {port: 8000}}
workers:
  - {name: big, kv_blocks: 9000}
  - {kv_blocks: 1000}
)"));
  ASSERT_TRUE(deployment.has_value()) << deployment.error().message;
  EXPECT_EQ(deployment->name, "mixed");
  EXPECT_EQ(deployment->gateway.mode, RoutingMode::kLeastLoaded);
  EXPECT_EQ(deployment->workers.at(0).name, "big");
  EXPECT_EQ(deployment->workers.at(1).name, "worker-1");
  EXPECT_EQ(deployment->workers.at(1).kv_blocks, 1000U);
}

TEST(DeploymentSpecTest, PartsMustFitEachOther) {
  EXPECT_THAT(message(read_deployment(parsed("gateway: {block_size: 16}\nworkers: {count: 2, block_size: 32}\n"))),
              AllOf(StartsWith("test.yaml:1: gateway: "), HasSubstr("16"), HasSubstr("32")));
  EXPECT_THAT(message(read_deployment(parsed("gateway: {model: a}\nworkers: {model: b}\n"))),
              AllOf(StartsWith("test.yaml:1: gateway: "), HasSubstr("\"a\""), HasSubstr("\"b\"")));
  EXPECT_THAT(message(read_deployment(parsed("workers:\n  count: 2\n  http: {port: 8000}\n"))),
              AllOf(StartsWith("test.yaml:1: workers: "), HasSubstr("share a port")));
  EXPECT_THAT(message(read_deployment(parsed("workers: [{name: a}, {name: a}]\n"))),
              HasSubstr("two workers are called"));
  EXPECT_THAT(message(read_deployment(parsed("workers: []\n"))), HasSubstr("at least one worker"));
  EXPECT_THAT(message(read_deployment(parsed("name: x\n"))), HasSubstr("key \"workers\" is missing"));
  EXPECT_THAT(message(read_deployment(parsed("workers: {}\ngateway:\n  workers: [{url: 'http://h:1'}]\n"))),
              StartsWith("test.yaml:3: gateway.workers: "));
  EXPECT_THAT(message(read_deployment(parsed("workers:\n  count: 2\n  block_sice: 16\n"))),
              AllOf(StartsWith("test.yaml:3: workers.block_sice: "), HasSubstr("count"), HasSubstr("block_size")));
}

TEST(RoutingModeTest, NamesAndAliases) {
  for (std::size_t i = 0; i < kRoutingModeCount; ++i) {
    const RoutingMode mode = kRoutingModes[i];
    EXPECT_EQ(static_cast<std::size_t>(mode), i);
    EXPECT_EQ(parse_routing_mode(to_string(mode)).value(), mode);
  }
  EXPECT_EQ(parse_routing_mode("Round-Robin").value(), RoutingMode::kRoundRobin);
  EXPECT_EQ(parse_routing_mode("least-loaded").value(), RoutingMode::kLeastLoaded);
  EXPECT_EQ(parse_routing_mode("kv_aware").value(), RoutingMode::kKv);
  EXPECT_EQ(parse_routing_mode("KV-AWARE").value(), RoutingMode::kKv);
  EXPECT_EQ(parse_routing_mode("cache_aware").value(), RoutingMode::kSglang);
  EXPECT_EQ(parse_routing_mode("PrefixHash").value(), RoutingMode::kBoundedHash);
  EXPECT_EQ(parse_routing_mode("session-affinity").value(), RoutingMode::kSession);
  EXPECT_EQ(
      message(parse_routing_mode("fastest")),
      "unknown routing mode \"fastest\"; the modes are: round_robin, random, least_loaded, kv, dynamo, power_of_two, "
      "sglang, bounded_hash, session, vllm_kv_aware, smg, llm_d, lmetric, smetric, preble, "
      "clairvoyant");
  EXPECT_THAT(
      parse_routing_mode("least_loded").error().message,
      StartsWith("unknown routing mode \"least_loded\"; did you mean least_loaded? The modes are: round_robin, "));
}

TEST(RoutingModeTest, AGatewayHasNoModeThatOnlyASimulationCanDecide) {
  for (const RoutingMode mode : kRoutingModes) EXPECT_EQ(require_live(mode).has_value(), !is_simulated_only(mode));
  EXPECT_THAT(message(read_deployment(parsed("gateway: {mode: clairvoyant}\nworkers: {count: 1}\n"))),
              AllOf(StartsWith("test.yaml:1: gateway.mode: "), HasSubstr("kvist simulate")));
  EXPECT_EQ(
      message(read_deployment(parsed("gateway: {mode: clairvoyent}\nworkers: {count: 1}\n"))),
      "test.yaml:1: gateway.mode: unknown routing mode \"clairvoyent\"; the modes are: round_robin, random, "
      "least_loaded, kv, dynamo, power_of_two, sglang, bounded_hash, session, vllm_kv_aware, smg, llm_d, lmetric, "
      "smetric, preble");
  EXPECT_THAT(message(parse_routing_mode("clairvoyent")), HasSubstr("did you mean clairvoyant? The modes are:"));
}

TEST(ReadPeers, HowAGatewayReachesTheOthers) {
  const auto read = read_gateway(parsed("peers: {nats: 'nats://a:4222,tls://b:4222', group: llm, name: gw-1, user: u, "
                                        "password_file: pw, tls: {ca: ca.pem}, patience: 5 s}\n"),
                                 "/etc/kvist");
  ASSERT_TRUE(read) << message(read);
  EXPECT_EQ(read->peers, (PeersSpec{.nats = "nats://a:4222,tls://b:4222",
                                    .group = "llm",
                                    .name = "gw-1",
                                    .user = "u",
                                    .password_file = "/etc/kvist/pw",
                                    .tls = {.ca = "/etc/kvist/ca.pem"},
                                    .patience = std::chrono::seconds(5)}));
  EXPECT_FALSE(GatewaySpec().peers.is_given());
  const auto refused = [](const std::string& peers) { return message(read_gateway(parsed("peers: " + peers + "\n"))); };
  EXPECT_THAT(refused("{}"), HasSubstr("\"nats\" is missing"));
  EXPECT_THAT(refused("{nats: 'http://a:4222'}"), HasSubstr("expected nats://host:port"));
  EXPECT_THAT(refused("{nats: 'nats://a:1,'}"), HasSubstr("expected nats://host:port"));
  for (const std::string user : {"me:secret", "secret", "me:s,secret"}) {
    EXPECT_THAT(refused("{nats: 'nats://b:4222,nats://" + user + "@a:4222'}"),
                AllOf(HasSubstr("without a user name"), Not(HasSubstr("secret"))));
  }
  EXPECT_THAT(refused("{nats: 'nats://a:1', user: u}"), HasSubstr("go together"));
  EXPECT_THAT(refused("{nats: 'nats://a:1', token_file: t, credentials_file: c}"), HasSubstr("give one of"));
  EXPECT_THAT(refused("{nats: 'nats://a:1', patience: 1 s}"), HasSubstr("patience"));
}

}  // namespace
}  // namespace kvist::spec::deployment_test
