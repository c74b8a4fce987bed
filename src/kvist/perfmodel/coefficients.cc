#include "kvist/perfmodel/coefficients.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "kvist/base/json_writer.h"
#include "kvist/base/yaml.h"
#include "kvist/perfmodel/coefficient_table.h"
#include "kvist/perfmodel/engine_reader.h"
#include "kvist/perfmodel/fact_reading.h"
#include "kvist/perfmodel/profile_library.h"

namespace kvist::perfmodel {
namespace {

std::string quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

/// [1-32, 64, 128]
std::string sizes_text(const std::vector<std::uint32_t>& sizes) {
  std::string out = "[";
  for (std::size_t i = 0; i < sizes.size();) {
    std::size_t last = i;
    while (last + 1 < sizes.size() && sizes[last + 1] == sizes[last] + 1) ++last;
    if (i > 0) out += ", ";
    out += std::to_string(sizes[i]);
    if (last > i) out += "-" + std::to_string(sizes[last]);
    i = last + 1;
  }
  return out + "]";
}

std::string_view mechanism_of(std::string_view name) {
  return name.substr(0, name.find('.'));
}

void write_coefficient(std::string& out, const Coefficient& c) {
  const auto name = std::string_view(c.name).substr(mechanism_of(c.name).size() + 1);
  if (c.unit == kSwitchUnit) {
    fmt::format_to(std::back_inserter(out), "    {}: {}\n", name, c.value != 0);
    return;
  }
  fmt::format_to(std::back_inserter(out), "    {}: {{value: {}, unit: {}", name, c.value, quoted(c.unit));
  if (c.scales_with != ScalesWith::kNothing) {
    fmt::format_to(std::back_inserter(out), ", scales_with: {}", to_string(c.scales_with));
  }
  if (c.is_free) out += ", free: true";
  fmt::format_to(std::back_inserter(out), ", origin: {}}}\n", quoted(to_text(c.origin)));
}

}  // namespace

Result<Coefficients> Coefficients::parse(std::string_view text, const std::string& name) {
  KVIST_TRY(const YamlNode root, YamlNode::parse(text, name));
  return EngineReader().read(root);
}

Result<Coefficients> Coefficients::of(const spec::ProfileSpec& profile) {
  Coefficients coefficients;
  if (profile.file.empty()) {
    KVIST_TRY(const Coefficients* engine, library().engine(profile.engine));
    coefficients = *engine;
  } else {
    KVIST_TRY(const YamlNode root, YamlNode::load(profile.file));
    KVIST_TRY(coefficients, EngineReader().read(root));
  }
  for (const auto& [name, value] : profile.set) {
    auto done = coefficients.set(name, value, {OriginKind::kAssumed, "set in the deployment"});
    if (!done) return std::unexpected(std::move(done).error().in("profile.set"));
  }
  return coefficients;
}

const Coefficient* Coefficients::find(std::string_view name) const {
  const auto found = std::ranges::find(all_, name, &Coefficient::name);
  return found == all_.end() ? nullptr : &*found;
}

Result<double> Coefficients::get(std::string_view name) const {
  if (const Coefficient* found = find(name)) return found->value;
  std::string known;
  for (const Coefficient& c : all_) known.append(known.empty() ? "" : ", ").append(c.name);
  return fail(ErrorCode::kNotFound,
              fmt::format("engine behaviour {} has no coefficient \"{}\"; it has: {}", name_, name, known));
}

Result<void> Coefficients::set(std::string_view name, double value, Origin origin) {
  KVIST_TRY_VOID(get(name));
  Coefficient& c = *std::ranges::find(all_, name, &Coefficient::name);
  if (!(value >= c.low && value <= c.high)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} = {} is out of range ({} to {})", name, value, c.low, c.high));
  }
  if (c.unit == kSwitchUnit && value != 0 && value != 1) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} is a switch: 0 or 1, not {}", name, value));
  }
  c.value = value;
  if (c.unit != kSwitchUnit) c.origin = std::move(origin);
  return {};
}

Result<void> Coefficients::set_free(std::string_view name, bool is_free) {
  KVIST_TRY_VOID(get(name));
  Coefficient& c = *std::ranges::find(all_, name, &Coefficient::name);
  if (is_free && c.unit == kSwitchUnit) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} is a switch: there is nothing to fit", name));
  }
  c.is_free = is_free;
  return {};
}

std::vector<std::string> Coefficients::free_names() const {
  std::vector<std::string> names;
  for (const Coefficient& c : all_) {
    if (c.is_free) names.push_back(c.name);
  }
  return names;
}

std::string Coefficients::to_yaml() const {
  const EngineBehaviour& b = behaviour_;
  std::string out = fmt::format(
      "engine: {}\ntitle: {}\nfitted_on: {{gpu: {}, model: {}, tensor_parallel: {}}}\nbehaviour:\n  admission: {}\n"
      "  max_steps_in_flight: {}\n  prefix_deferral: {}\n  prefix_when_planned: {}\n  memory_fraction: {}\n  "
      "memory_meaning: {}\nmechanisms:\n",
      quoted(name_), quoted(title_), quoted(fitted_on_.gpu), quoted(fitted_on_.model), fitted_on_.tensor_parallel,
      b.admission == spec::AdmissionKind::kGreedy ? "greedy" : "reserve_to_completion", b.max_steps_in_flight,
      b.prefix_deferral, b.prefix_when_planned, b.memory_fraction,
      b.memory_meaning == spec::MemoryMeaning::kOfTotal ? "of_total" : "of_free");
  std::string_view open;
  for (const Coefficient& c : all_) {
    const std::string_view mechanism = mechanism_of(c.name);
    if (mechanism != open) {
      open = mechanism;
      fmt::format_to(std::back_inserter(out), "  {}:\n", mechanism);
      if (mechanism == "graphs") fmt::format_to(std::back_inserter(out), "    sizes: {}\n", sizes_text(graph_sizes_));
    }
    write_coefficient(out, c);
  }
  return out;
}

}  // namespace kvist::perfmodel
