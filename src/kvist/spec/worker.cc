// A worker's settings, read and written.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "kvist/spec/deployment.h"
#include "kvist/spec/endpoint.h"
#include "kvist/spec/exposure_yaml.h"
#include "kvist/spec/fields.h"
#include "kvist/spec/observation_yaml.h"
#include "kvist/spec/step_time_yaml.h"
#include "kvist/spec/yaml_writer.h"

namespace kvist::spec {
namespace {

constexpr std::array kAdmissionWords = {Word{"reserve_to_completion", AdmissionKind::kReserveToCompletion},
                                        Word{"greedy", AdmissionKind::kGreedy}};

constexpr std::array kWeightWords = {Word{"as_stored", WeightType::kAsStored}, Word{"bf16", WeightType::kBf16},
                                     Word{"f32", WeightType::kF32}};
constexpr std::array kCpuKvWords = {Word{"as_weights", CpuKvType::kAsWeights}, Word{"bf16", CpuKvType::kBf16},
                                    Word{"f16", CpuKvType::kF16}, Word{"f32", CpuKvType::kF32}};
constexpr std::uint32_t kCpuStepTokens = 256;
constexpr std::size_t kMaxTopicBytes = 256;
constexpr std::array kToolParserWords = {Word{"hermes", ToolCallFormat::kHermes},
                                         Word{"llama3_json", ToolCallFormat::kLlama3Json},
                                         Word{"mistral", ToolCallFormat::kMistral}};

Result<void> read_step_time(const YamlNode& worker, bool has_profile, StepTimeSpec& step) {
  const auto node = worker.get("step_time");
  if (!node) return {};
  if (has_profile) {
    return std::unexpected(
        node->error("the worker has a profile, which gives its step times: leave step_time or the profile out"));
  }
  return read_step_time(*node, step);
}

/// May be given as "", the empty topic.
Result<void> read_topic(const YamlNode& worker, std::string& topic) {
  const auto node = worker.get("kv_events_topic");
  if (!node) return {};
  KVIST_TRY(const std::string given, node->as_string());
  if (given.empty()) return {};
  KVIST_TRY_VOID(read_field(worker, "kv_events_topic", topic));
  if (topic.size() <= kMaxTopicBytes) return {};
  return std::unexpected(node->error(fmt::format("{} bytes, at most {} are allowed", topic.size(), kMaxTopicBytes)));
}

/// Refuses settings of the timed engine for a worker that computes its model.
Result<void> read_cpu_engine(const YamlNode& worker, const std::string& base_directory, WorkerSpec& w) {
  const auto node = worker.get("cpu");
  if (!node) return {};
  for (const std::string_view key : {"profile", "step_time", "time_scale", "output_length", "prefix_when_planned"}) {
    if (const auto timed = worker.get(key))
      return std::unexpected(timed->error(fmt::format("the worker has a cpu engine: leave {} or cpu out", key)));
  }
  CpuEngineSpec& cpu = w.cpu.emplace();
  KVIST_TRY_VOID(read_path(*node, "model", base_directory, cpu.model));
  KVIST_TRY_VOID(read_field(*node, "threads", cpu.threads, 0, 1'024));
  KVIST_TRY_VOID(read_word(*node, "weights", kWeightWords, cpu.weights));
  KVIST_TRY_VOID(read_word(*node, "kv_dtype", kCpuKvWords, cpu.kv_dtype));
  if (const auto memory = node->get("memory")) {
    KVIST_TRY(cpu.memory_bytes, memory->as_bytes());
  }
  KVIST_TRY_VOID(node->finish());
  if (cpu.model.empty()) return std::unexpected(node->error("model is missing: the directory of a checkpoint"));
  if (w.tokenizer.empty()) w.tokenizer = cpu.model;
  // A step of the timed engine's default size would take seconds.
  if (!worker.get("max_num_tokens")) w.max_num_tokens = std::max(kCpuStepTokens, w.max_batch_size);
  w.open = {.kv_blocks = !worker.get("kv_blocks"),
            .max_model_len = !worker.get("max_model_len"),
            .prefix_deferral = !worker.get("prefix_deferral")};
  return {};
}

/// The format cannot be guessed from the model, because a wrong guess would turn text into calls.
Result<void> read_tool_parser(const YamlNode& worker, WorkerSpec& w) {
  const auto node = worker.get("tool_parser");
  if (!node) return {};
  KVIST_TRY_VOID(read_word(worker, "tool_parser", kToolParserWords, w.tool_parser.emplace()));
  if (w.tokenizer.empty())
    return std::unexpected(node->error("needs a model's template, which writes the tools: give tokenizer, or cpu"));
  return {};
}

Result<void> read_output_length(const YamlNode& worker, OutputLengthSpec& length) {
  const auto node = worker.get("output_length");
  if (!node) return {};
  KVIST_TRY_VOID(read_field(*node, "mean_tokens", length.mean_tokens, 1.0, 1e6));
  KVIST_TRY_VOID(read_field(*node, "standard_deviation_tokens", length.standard_deviation_tokens, 0.0, 1e6));
  return node->finish();
}

/// Checks that settings fit together.
Result<void> check_limits(const YamlNode& node, WorkerSpec& w) {
  const std::uint64_t capacity = std::uint64_t{w.block_size} * w.kv_blocks;
  const auto max_model_len = node.get("max_model_len");
  const bool is_known = !w.open.kv_blocks;  // otherwise perfmodel::resolve() checks
  if (is_known && !max_model_len) {
    w.max_model_len = static_cast<std::uint32_t>(std::min<std::uint64_t>(w.max_model_len, capacity));
  }
  if (is_known && w.max_model_len > capacity) {
    return std::unexpected(max_model_len->error(
        fmt::format("a request of {} tokens does not fit the KV memory: {} blocks of {} tokens hold {}",
                    w.max_model_len, w.kv_blocks, w.block_size, capacity)));
  }
  if (!w.open.max_model_len && w.long_prefill_token_threshold > w.max_model_len) {
    return std::unexpected(
        node.get("long_prefill_token_threshold")
            ->error(fmt::format("{} is above max_model_len ({}): no prompt is so long, and vLLM refuses to start",
                                w.long_prefill_token_threshold, w.max_model_len)));
  }
  if (w.max_num_tokens < w.max_batch_size) {
    const auto given = node.get("max_num_tokens") ? node.get("max_num_tokens") : node.get("max_batch_size");
    return std::unexpected(
        given->error(fmt::format("max_num_tokens ({}) is below max_batch_size ({}): each running sequence needs a "
                                 "token in every step",
                                 w.max_num_tokens, w.max_batch_size)));
  }
  return {};
}

}  // namespace

Result<void> read_endpoint(const YamlNode& map, std::string_view key, Endpoint& endpoint) {
  const auto node = map.get(key);
  if (!node) return {};
  KVIST_TRY_VOID(read_field(*node, "host", endpoint.host));
  KVIST_TRY_VOID(read_field(*node, "port", endpoint.port, 0, 65'535));
  return node->finish();
}

void write_endpoint(YamlWriter& out, std::string_view key, const Endpoint& endpoint) {
  out.begin_map(key).field("host", endpoint.host).field("port", endpoint.port).end_map();
}

Result<void> read_worker_fields(const YamlNode& node, const std::string& base_directory, WorkerSpec& w) {
  KVIST_TRY_VOID(read_name(node, "name", w.name));
  KVIST_TRY_VOID(read_field(node, "model", w.model));
  KVIST_TRY_VOID(read_path(node, "tokenizer", base_directory, w.tokenizer));
  KVIST_TRY_VOID(read_field(node, "special_tokens_in_messages", w.special_tokens_in_messages));
  KVIST_TRY_VOID(read_endpoint(node, "http", w.http));
  KVIST_TRY_VOID(read_admin(node, w.http, 0, w.admin));
  KVIST_TRY_VOID(read_cors(node, w.cors));
  KVIST_TRY_VOID(read_log(node, w.log));
  KVIST_TRY_VOID(read_server_tls(node, "tls", base_directory, w.tls));
  KVIST_TRY_VOID(read_server_tls(node, "admin_tls", base_directory, w.admin_tls));
  KVIST_TRY_VOID(read_path(node, "api_key_file", base_directory, w.api_key_file));
  KVIST_TRY_VOID(read_http_limits(node, w.http_limits));
  KVIST_TRY_VOID(read_max_body(node, w.max_body_bytes));
  KVIST_TRY_VOID(read_field(node, "kv_events_port", w.kv_events_port, 0, 65'535));
  KVIST_TRY_VOID(read_field(node, "kv_replay_port", w.kv_replay_port, 0, 65'535));
  KVIST_TRY_VOID(read_topic(node, w.kv_events_topic));
  KVIST_TRY_VOID(read_field(node, "kv_events_buffer", w.kv_events_buffer, 1, 1'000'000));
  KVIST_TRY_VOID(read_field(node, "block_size", w.block_size, 1, 4'096));
  KVIST_TRY_VOID(read_field(node, "kv_blocks", w.kv_blocks, 1, 100'000'000));
  KVIST_TRY_VOID(read_field(node, "max_batch_size", w.max_batch_size, 1, 65'536));
  KVIST_TRY_VOID(read_field(node, "max_num_tokens", w.max_num_tokens, 1, 10'000'000));
  KVIST_TRY_VOID(read_field(node, "max_model_len", w.max_model_len, 2, 100'000'000));
  KVIST_TRY_VOID(read_field(node, "max_waiting", w.max_waiting, 1, 1'000'000));
  KVIST_TRY_VOID(read_field(node, "drain_timeout", w.drain_timeout, Duration(0)));
  KVIST_TRY_VOID(read_field(node, "max_steps_in_flight", w.max_steps_in_flight, 1, 2));
  KVIST_TRY_VOID(read_word(node, "admission", kAdmissionWords, w.admission));
  KVIST_TRY_VOID(read_field(node, "prefix_deferral", w.prefix_deferral));
  KVIST_TRY_VOID(read_field(node, "prefix_when_planned", w.prefix_when_planned));
  KVIST_TRY_VOID(read_field(node, "long_prefill_token_threshold", w.long_prefill_token_threshold, 0, 10'000'000));
  KVIST_TRY_VOID(read_field(node, "time_scale", w.time_scale, 0.001, 1e6));
  KVIST_TRY_VOID(read_profile(node, base_directory, w.profile));
  if (w.profile) {
    w.open = {.kv_blocks = !node.get("kv_blocks"),
              .max_model_len = !node.get("kv_blocks") && !node.get("max_model_len"),
              .max_steps_in_flight = !node.get("max_steps_in_flight"),
              .admission = !node.get("admission"),
              .prefix_deferral = !node.get("prefix_deferral"),
              .prefix_when_planned = !node.get("prefix_when_planned")};
  }
  KVIST_TRY_VOID(read_cpu_engine(node, base_directory, w));
  KVIST_TRY_VOID(read_tool_parser(node, w));
  KVIST_TRY_VOID(read_step_time(node, w.profile.has_value(), w.step_time));
  KVIST_TRY_VOID(read_speculation(node, w.speculation));
  KVIST_TRY_VOID(read_output_length(node, w.output_length));
  KVIST_TRY_VOID(node.finish());
  return check_limits(node, w);
}

Result<WorkerSpec> read_worker(const YamlNode& node, const std::string& base_directory) {
  WorkerSpec worker;
  KVIST_TRY_VOID(read_worker_fields(node, base_directory, worker));
  return worker;
}

std::string to_yaml(const WorkerSpec& w, int indent) {
  YamlWriter out(indent);
  out.field("name", w.name).field("model", w.model);
  if (!w.tokenizer.empty()) out.field("tokenizer", w.tokenizer);
  if (w.special_tokens_in_messages) out.field("special_tokens_in_messages", true);
  if (w.tool_parser) out.field("tool_parser", word_of(kToolParserWords, *w.tool_parser));
  write_endpoint(out, "http", w.http);
  write_endpoint(out, "admin", w.admin);
  write_cors(out, w.cors);
  write_log(out, w.log);
  write_server_tls(out, "tls", w.tls);
  write_server_tls(out, "admin_tls", w.admin_tls);
  if (!w.api_key_file.empty()) out.field("api_key_file", w.api_key_file);
  write_http_limits(out, w.http_limits);
  if (w.max_body_bytes != WorkerSpec{}.max_body_bytes) out.raw("max_body", fmt::format("{} B", w.max_body_bytes));
  out.field("kv_events_port", w.kv_events_port).field("kv_replay_port", w.kv_replay_port);
  if (!w.kv_events_topic.empty()) out.field("kv_events_topic", w.kv_events_topic);
  if (w.kv_events_buffer != WorkerSpec{}.kv_events_buffer) out.field("kv_events_buffer", w.kv_events_buffer);
  out.field("block_size", w.block_size);
  if (!w.open.kv_blocks) out.field("kv_blocks", w.kv_blocks);
  out.field("max_batch_size", w.max_batch_size).field("max_num_tokens", w.max_num_tokens);
  if (!w.open.max_model_len) out.field("max_model_len", w.max_model_len);
  out.field("max_waiting", w.max_waiting);
  if (w.drain_timeout != WorkerSpec{}.drain_timeout) out.field("drain_timeout", w.drain_timeout);
  if (!w.open.max_steps_in_flight) out.field("max_steps_in_flight", w.max_steps_in_flight);
  if (!w.open.admission) out.field("admission", word_of(kAdmissionWords, w.admission));
  if (!w.open.prefix_deferral) out.field("prefix_deferral", w.prefix_deferral);
  if (!w.open.prefix_when_planned && !w.cpu) out.field("prefix_when_planned", w.prefix_when_planned);
  if (w.long_prefill_token_threshold != 0) out.field("long_prefill_token_threshold", w.long_prefill_token_threshold);
  if (w.cpu) {
    out.begin_map("cpu").field("model", w.cpu->model).field("threads", w.cpu->threads);
    out.field("weights", word_of(kWeightWords, w.cpu->weights));
    if (w.cpu->kv_dtype != CpuKvType::kAsWeights) out.field("kv_dtype", word_of(kCpuKvWords, w.cpu->kv_dtype));
    out.field("memory", fmt::format("{} B", w.cpu->memory_bytes)).end_map();
  } else {
    out.field("time_scale", w.time_scale);
  }
  if (w.profile) {
    write_profile(out, *w.profile);
  } else if (!w.cpu) {
    write_step_time(out, "step_time", w.step_time);
  }
  if (w.speculation != SpeculationSpec{}) write_speculation(out, w.speculation);
  if (w.cpu) return out.take();
  out.begin_map("output_length").field("mean_tokens", w.output_length.mean_tokens);
  out.field("standard_deviation_tokens", w.output_length.standard_deviation_tokens).end_map();
  return out.take();
}

}  // namespace kvist::spec
