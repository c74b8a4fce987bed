// fuzz: perfmodel
// Engine behaviours from YAML: any text gives coefficients that write and read back the same, or an error.
#include <cstddef>
#include <cstdint>
#include <string>

#include "kvist/base/check.h"
#include "kvist/perfmodel/coefficients.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  const auto coefficients = kvist::perfmodel::Coefficients::parse(text, "fuzz");
  if (!coefficients) return 0;
  for (const auto& coefficient : coefficients->all()) {
    KVIST_CHECK(coefficient.value >= coefficient.low && coefficient.value <= coefficient.high, coefficient.name);
  }
  const auto again = kvist::perfmodel::Coefficients::parse(coefficients->to_yaml(), "again");
  KVIST_CHECK(again.has_value(), again.error().message);
  KVIST_CHECK(*again == *coefficients, "what is written is read back the same");
  return 0;
}
