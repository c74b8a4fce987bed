// fuzz: analysis
// Published figures from JSON: any text gives finite figures, by concurrency, each level and mode findable, or an
// error.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kvist/analysis/reference_data.h"
#include "kvist/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using kvist::analysis::ReferenceFigures;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto reference = kvist::analysis::parse_reference(text, "fuzz");
  if (!reference) {
    KVIST_CHECK(reference.error().message.starts_with("fuzz"), "an error names its file");
    return 0;
  }
  KVIST_CHECK(std::ranges::is_sorted(reference->concurrencies), "concurrencies ascend");
  KVIST_CHECK(std::ranges::is_sorted(reference->levels, {}, &ReferenceFigures::concurrency), "levels ascend");
  const auto modes = reference->modes();
  for (const ReferenceFigures& level : reference->levels) {
    KVIST_CHECK(level.concurrency > 0, "a concurrency is a count");
    KVIST_CHECK(std::ranges::find(modes, level.mode) != modes.end(), "a level's mode is one of the modes");
    KVIST_CHECK(reference->find(level.mode, level.concurrency) != nullptr, "a level is found");
    for (const auto& figure : level.figures) KVIST_CHECK(!figure || std::isfinite(*figure), "figures are finite");
  }
  for (const auto& [key, value] : reference->expected) KVIST_CHECK(std::isfinite(value), key);
  return 0;
}
