// The memory report as text and as JSON.
#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "kvist/base/json_writer.h"
#include "kvist/planning/memory_report.h"

namespace kvist::planning {
namespace {

std::string_view dtype_name(spec::KvDtype dtype) {
  return dtype == spec::KvDtype::kFp8 ? "FP8" : "FP16";
}

/// 209263 -> "209,263"
std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string grouped(double number) {
  return grouped(static_cast<std::uint64_t>(number));
}

void add_budget(std::string& out, std::string_view title, const std::vector<BudgetLine>& lines) {
  constexpr int kLabel = 44;
  fmt::format_to(std::back_inserter(out), "\n{}\n", title);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i + 1 == lines.size()) fmt::format_to(std::back_inserter(out), "  {:-<{}}\n", "", kLabel + 11);
    fmt::format_to(std::back_inserter(out), "  {:<{}} {:>7.1f} GB\n", lines[i].label, kLabel, lines[i].bytes / kGb);
  }
}

std::string counting_text(const SequenceAssumption& a) {
  return fmt::format("{} KV, {}{}", dtype_name(a.dtype), a.counts_drafter ? "both models" : "target only",
                     a.is_split ? "" : ", not split over the GPUs");
}

void add_assumptions(std::string& out, const MemoryReport& r) {
  const std::uint32_t claimed = r.question.claimed_sequences;
  fmt::format_to(std::back_inserter(out), "\nWhen does the plan's budget hold {} sequences?\n", claimed);
  fmt::format_to(std::back_inserter(out), "  {:<48} {:>12}  {:>15}  {}\n", "counting", "bytes/token", "tokens each",
                 "which is");
  std::string arithmetic;
  for (const SequenceAssumption& a : r.assumptions) {
    std::string which;
    for (const std::string& label : a.lengths) which.append(which.empty() ? "" : ", ").append(label);
    fmt::format_to(
        std::back_inserter(out), "  {:<48} {:>12}  {:>15}  {}\n", counting_text(a), grouped(a.bytes_per_token),
        fmt::format("{} - {}", grouped(a.least_tokens + 1), grouped(a.most_tokens)), which.empty() ? "-" : which);
    for (const SequenceLength& length : r.lengths) {
      if (std::find(a.lengths.begin(), a.lengths.end(), length.label) == a.lengths.end()) continue;
      fmt::format_to(std::back_inserter(arithmetic), "  {} of {} tokens, {}: {} B / ({} x {} B) = {:.1f}\n",
                     length.label, grouped(length.tokens), counting_text(a), grouped(r.planned_kv_bytes),
                     grouped(length.tokens), grouped(a.bytes_per_token),
                     r.planned_kv_bytes / (static_cast<double>(length.tokens) * a.bytes_per_token));
    }
  }
  if (arithmetic.empty()) {
    fmt::format_to(std::back_inserter(out), "  None of the lengths above gives {}.\n", claimed);
  } else {
    fmt::format_to(std::back_inserter(out), "{} holds for:\n{}", claimed, arithmetic);
  }
}

void add_fractions(std::string& out, const MemoryReport& r) {
  fmt::format_to(std::back_inserter(out), "\n{:>10} {:>10} {:>12} {:>18}  fits (worst step {:.1f} GB)\n", "fraction",
                 "KV", "KV tokens", "room for a step", r.plan.activation_peak_bytes / kGb);
  for (const FractionRow& row : r.fractions) {
    fmt::format_to(std::back_inserter(out), "{:>10.2f} {:>7.1f} GB {:>12} {:>15.1f} GB  {}\n", row.fraction,
                   row.kv_bytes / kGb, grouped(row.kv_tokens), row.activation_room_bytes / kGb,
                   row.fits ? "yes" : "no");
  }
}

void write_lines(JsonWriter& json, std::string_view key, const std::vector<BudgetLine>& lines) {
  json.key(key).begin_array();
  for (const BudgetLine& line : lines) {
    json.begin_object().field("label", line.label).field("bytes", line.bytes).end_object();
  }
  json.end_array();
}

void write_plan(JsonWriter& json, const perfmodel::MemoryPlan& p) {
  json.key("profile").begin_object();
  json.field("memory_bytes", p.total_bytes).field("memory_fraction", p.fraction);
  json.field("memory_meaning", p.meaning == spec::MemoryMeaning::kOfTotal ? "of_total" : "of_free");
  json.field("weight_bytes", p.weight_bytes).field("drafter_weight_bytes", p.drafter_weight_bytes);
  json.field("context_bytes", p.context_bytes).field("activation_bytes", p.activation_bytes);
  json.field("activation_peak_bytes", p.activation_peak_bytes).field("kv_bytes", p.kv_bytes);
  json.field("kv_bytes_per_token", p.kv_bytes_per_token);
  json.field("drafter_kv_bytes_per_token", p.drafter_kv_bytes_per_token);
  json.field("block_size", p.block_size).field("kv_blocks", p.kv_blocks).field("kv_tokens", p.kv_tokens());
  json.field("peak_bytes", p.peak_bytes()).field("fits", p.fits()).end_object();
}

void write_assumptions(JsonWriter& json, const MemoryReport& r) {
  json.key("claim").begin_object().field("sequences", r.question.claimed_sequences).key("assumptions").begin_array();
  for (const SequenceAssumption& a : r.assumptions) {
    json.begin_object().field("kv_dtype", a.dtype == spec::KvDtype::kFp8 ? "fp8" : "fp16");
    json.field("counts_drafter", a.counts_drafter).field("is_split", a.is_split);
    json.field("bytes_per_token", a.bytes_per_token);
    json.field("above_tokens", a.least_tokens).field("up_to_tokens", a.most_tokens).field("holds", a.holds());
    json.key("lengths").begin_array();
    for (const std::string& label : a.lengths) json.value(label);
    json.end_array().end_object();
  }
  json.end_array().end_object();
}

}  // namespace

std::string render_table(const MemoryReport& r) {
  std::string out = "Memory per GPU: " + r.title + "\n";
  add_budget(out, "On paper (memory as sold, round weights)", r.planned);
  add_budget(out, "By profile", r.profiled);
  const perfmodel::MemoryPlan& p = r.plan;
  fmt::format_to(std::back_inserter(out), "\nKV cache: {} bytes per token and GPU", grouped(p.kv_bytes_per_token));
  if (p.drafter_kv_bytes_per_token > 0) {
    fmt::format_to(std::back_inserter(out), " and {} of the drafter", grouped(p.drafter_kv_bytes_per_token));
  }
  fmt::format_to(std::back_inserter(out), ": {} blocks of {}, {} tokens\n", grouped(std::uint64_t{p.kv_blocks}),
                 p.block_size, grouped(p.kv_tokens()));
  fmt::format_to(std::back_inserter(out), "\n  {:<34} {:>9} {:>10} {:>11}\n", "concurrent sequences, each of", "tokens",
                 "on paper", "by profile");
  for (const SequenceLength& length : r.lengths) {
    fmt::format_to(std::back_inserter(out), "  {:<34} {:>9} {:>10} {:>11}\n", length.label, grouped(length.tokens),
                   length.planned, length.profiled);
  }
  add_assumptions(out, r);
  add_fractions(out, r);
  if (!r.out_of_memory.empty()) fmt::format_to(std::back_inserter(out), "\n{}\n", r.out_of_memory);
  out += "\nWhat it rests on:\n";
  for (const perfmodel::Coefficient& c : r.sources) {
    const std::string value = c.unit == "B" ? fmt::format("{:.2f} GB", c.value / kGb) : fmt::format("{}", c.value);
    fmt::format_to(std::back_inserter(out), "  {:<24} {:>10}  {}: {}\n", c.name, value, to_string(c.origin.kind),
                   c.origin.text);
  }
  return out;
}

std::string render_json(const MemoryReport& r) {
  JsonWriter json(2);
  json.begin_object().field("title", r.title);
  write_lines(json, "planned", r.planned);
  json.field("planned_kv_bytes", r.planned_kv_bytes);
  write_lines(json, "profiled", r.profiled);
  write_plan(json, r.plan);
  json.key("sequences").begin_array();
  for (const SequenceLength& length : r.lengths) {
    json.begin_object().field("label", length.label).field("tokens", length.tokens);
    json.field("planned", length.planned).field("profiled", length.profiled).end_object();
  }
  json.end_array();
  write_assumptions(json, r);
  json.key("fractions").begin_array();
  for (const FractionRow& row : r.fractions) {
    json.begin_object().field("memory_fraction", row.fraction).field("kv_bytes", row.kv_bytes);
    json.field("kv_tokens", row.kv_tokens).field("activation_room_bytes", row.activation_room_bytes);
    json.field("fits", row.fits).end_object();
  }
  json.end_array();
  json.key("out_of_memory");
  r.out_of_memory.empty() ? json.null() : json.value(r.out_of_memory);
  json.key("fraction_that_fits");
  r.fraction_that_fits ? json.value(*r.fraction_that_fits) : json.null();
  json.key("sources").begin_array();
  for (const perfmodel::Coefficient& c : r.sources) {
    json.begin_object().field("name", c.name).field("value", c.value).field("unit", c.unit);
    json.field("origin", std::string(to_string(c.origin.kind)) + ": " + c.origin.text).end_object();
  }
  json.end_array().end_object();
  return json.take() + "\n";
}

}  // namespace kvist::planning
