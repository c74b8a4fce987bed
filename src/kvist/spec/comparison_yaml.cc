#include "kvist/spec/comparison_yaml.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "kvist/spec/dynamo_target_yaml.h"
#include "kvist/spec/exposure_yaml.h"
#include "kvist/spec/fields.h"
#include "kvist/spec/figure_keys.h"

namespace kvist::spec {
namespace {

constexpr std::array kOrderWords = {Word{"as_listed", ArmOrder::kAsListed}, Word{"abba", ArmOrder::kAbba},
                                    Word{"random", ArmOrder::kRandom}};
constexpr std::array kCacheWords = {Word{"restart", CacheProof::kRestart}, Word{"reset", CacheProof::kReset},
                                    Word{"nonce", CacheProof::kNonce}, Word{"none", CacheProof::kNone}};
constexpr std::array kReplyWords = {Word{"live", ArmReplies::kLive}, Word{"frozen", ArmReplies::kFrozen}};

Result<StopRule> read_stop_rule(const YamlNode& node) {
  StopRule rule;
  KVIST_TRY_VOID(read_field(node, "metric", rule.metric));
  KVIST_TRY_VOID(read_field(node, "half_width", rule.half_width, 0.001, 1'000.0));
  KVIST_TRY_VOID(node.require("half_width"));
  KVIST_TRY_VOID(node.finish());
  if (find_figure(rule.metric)) return rule;
  return std::unexpected(node.get("metric")->error(
      fmt::format("expected one of {}, got \"{}\"", fmt::join(kFigureKeys, ", "), rule.metric)));
}

/// "http://host:port" or "https://host:port" and nothing more.
Result<void> read_url(const YamlNode& map, std::string_view key, std::string& value) {
  KVIST_TRY_VOID(read_field(map, key, value));
  if (!map.get(key)) return {};
  while (value.ends_with('/')) value.pop_back();
  const std::size_t scheme = value.starts_with("http://") ? 7 : value.starts_with("https://") ? 8 : 0;
  const bool is_base =
      scheme > 0 && value.size() > scheme && value.find_first_of("/?# \t@", scheme) == std::string::npos;
  if (is_base) return {};
  return std::unexpected(map.get(key)->error(fmt::format("expected http://host:port, got \"{}\"", value)));
}

Result<TargetWorkerSpec> read_target_worker(const YamlNode& node) {
  TargetWorkerSpec worker;
  KVIST_TRY_VOID(node.require("name"));
  KVIST_TRY_VOID(node.require("url"));
  KVIST_TRY_VOID(read_name(node, "name", worker.name));
  KVIST_TRY_VOID(read_url(node, "url", worker.url));
  KVIST_TRY_VOID(read_url(node, "admin", worker.admin));
  KVIST_TRY_VOID(node.finish());
  return worker;
}

Result<ArmSpec> read_arm(const YamlNode& node) {
  ArmSpec arm;
  std::string name;
  KVIST_TRY_VOID(node.require("name"));
  KVIST_TRY_VOID(read_name(node, "name", name));
  arm.arm = Arm(name);
  if (const auto mode = node.get("mode")) {
    KVIST_TRY(const std::string text, mode->as_string());
    auto parsed = parse_routing_mode(text);
    if (!parsed) return std::unexpected(mode->error(parsed.error().message));
    arm.mode = *parsed;
  }
  KVIST_TRY_VOID(read_url(node, "url", arm.url));
  KVIST_TRY_VOID(read_field(node, "command", arm.command));
  KVIST_TRY_VOID(node.finish());
  const std::optional<RoutingMode> named = arm.arm.mode();
  if (!named || named == arm.mode) return arm;
  return std::unexpected(
      node.error(fmt::format("an arm called {} routes in that mode: say mode: {}, or call it "
                             "otherwise",
                             name, name)));
}

}  // namespace

Result<ComparisonSpec> read_comparison(const YamlNode& node, CacheProof usual) {
  ComparisonSpec c{.caches = usual};
  KVIST_TRY_VOID(read_word(node, "order", kOrderWords, c.order));
  KVIST_TRY_VOID(read_word(node, "caches", kCacheWords, c.caches));
  KVIST_TRY_VOID(read_word(node, "replies", kReplyWords, c.replies));
  if (const auto rule = node.get("stop_when")) {
    KVIST_TRY(c.stop_when, read_stop_rule(*rule));
  }
  KVIST_TRY_VOID(node.finish());
  if (!c.stop_when || c.alternates()) return c;
  return std::unexpected(
      node.get("stop_when")
          ->error(
              "arms that are measured one after the other have all their repetitions before the next one begins; with "
              "stop_when, say order: abba or order: random"));
}

void write_comparison(YamlWriter& out, const ComparisonSpec& c) {
  out.begin_map("comparison").field("order", word_of(kOrderWords, c.order));
  out.field("caches", word_of(kCacheWords, c.caches)).field("replies", word_of(kReplyWords, c.replies));
  if (c.stop_when) {
    out.begin_map("stop_when").field("metric", c.stop_when->metric);
    out.field("half_width", c.stop_when->half_width).end_map();
  }
  out.end_map();
}

Result<TargetSpec> read_target(const YamlNode& node, const std::string& base_directory) {
  TargetSpec target;
  KVIST_TRY_VOID(node.require("url"));
  KVIST_TRY_VOID(node.require("model"));
  KVIST_TRY_VOID(read_url(node, "url", target.url));
  KVIST_TRY_VOID(read_url(node, "admin", target.admin));
  KVIST_TRY_VOID(read_field(node, "model", target.model));
  KVIST_TRY_VOID(read_path(node, "api_key_file", base_directory, target.api_key_file));
  KVIST_TRY_VOID(read_path(node, "admin_api_key_file", base_directory, target.admin_api_key_file));
  KVIST_TRY_VOID(read_client_tls(node, "tls", base_directory, target.tls));
  KVIST_TRY_VOID(read_field(node, "settle", target.settle, Duration(0)));
  KVIST_TRY_VOID(read_field(node, "block_size", target.block_size, 1, 1'024));
  if (const auto dynamo = node.get("dynamo")) {
    KVIST_TRY(target.dynamo, read_dynamo_target(*dynamo, base_directory));
    if (!target.admin.empty())
      return std::unexpected(node.error("dynamo and admin: a mode is set in one place, by the gateway or by Dynamo"));
  }
  if (const auto workers = node.get("workers")) {
    KVIST_TRY(const auto elements, workers->elements());
    for (const YamlNode& element : elements) {
      KVIST_TRY(TargetWorkerSpec worker, read_target_worker(element));
      if (std::ranges::find(target.workers, worker.name, &TargetWorkerSpec::name) != target.workers.end()) {
        return std::unexpected(element.error(fmt::format("worker {} occurs twice", worker.name)));
      }
      target.workers.push_back(std::move(worker));
    }
  }
  KVIST_TRY_VOID(node.finish());
  return target;
}

void write_target(YamlWriter& out, const TargetSpec& target) {
  if (!target.is_given()) return;
  out.begin_map("target").field("url", target.url).field("model", target.model);
  if (!target.admin.empty()) out.field("admin", target.admin);
  if (!target.api_key_file.empty()) out.field("api_key_file", target.api_key_file);
  if (!target.admin_api_key_file.empty()) out.field("admin_api_key_file", target.admin_api_key_file);
  write_client_tls(out, "tls", target.tls);
  out.field("settle", target.settle).field("block_size", target.block_size);
  if (target.dynamo) write_dynamo_target(out, *target.dynamo);
  if (!target.workers.empty()) {
    out.begin_list("workers");
    for (const TargetWorkerSpec& worker : target.workers) {
      out.begin_item().field("name", worker.name).field("url", worker.url);
      if (!worker.admin.empty()) out.field("admin", worker.admin);
      out.end_map();
    }
    out.end_list();
  }
  out.end_map();
}

Result<std::vector<ArmSpec>> read_arms(const YamlNode& node) {
  KVIST_TRY(const auto elements, node.elements());
  std::vector<ArmSpec> arms;
  for (const YamlNode& element : elements) {
    KVIST_TRY(ArmSpec arm, read_arm(element));
    if (std::ranges::find(arms, arm.arm, &ArmSpec::arm) != arms.end()) {
      return std::unexpected(element.error(fmt::format("arm {} occurs twice", arm.arm.name())));
    }
    arms.push_back(std::move(arm));
  }
  if (arms.empty()) return std::unexpected(node.error("at least one arm is needed"));
  return arms;
}

void write_arms(YamlWriter& out, const std::vector<ArmSpec>& arms) {
  out.begin_list("arms");
  for (const ArmSpec& arm : arms) {
    out.begin_item().field("name", arm.arm.name());
    if (arm.mode) out.field("mode", to_string(*arm.mode));
    if (!arm.url.empty()) out.field("url", arm.url);
    if (!arm.command.empty()) out.field("command", arm.command);
    out.end_map();
  }
  out.end_list();
}

}  // namespace kvist::spec
