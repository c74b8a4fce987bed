// fuzz: gateway
// Any file of API keys: what is read is written and read back to the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kvist/base/check.h"
#include "kvist/gateway/key_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvist;
  const auto read = gateway::parse_key_file({reinterpret_cast<const char*>(data), size}, "keys");
  if (!read) {
    KVIST_CHECK(read.error().message.starts_with("keys:"), "an error that names no line");
    return 0;
  }
  std::string text;
  for (const gateway::KeyRecord& record : *read) text += gateway::to_line(record) + "\n";
  const auto again = gateway::parse_key_file(text, "keys");
  KVIST_CHECK(again && *again == *read, "keys that are not read back to the same");
  return 0;
}
