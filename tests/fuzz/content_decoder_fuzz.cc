// fuzz: net
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/check.h"
#include "kvist/net/content_decoder.h"

namespace {

using kvist::net::ContentCoding;
using kvist::net::ContentDecoder;

constexpr std::uint64_t kMostBytes = 1U << 16;

/// What a decoder makes of `body` in pieces of about `budget`; nothing: an error.
std::optional<std::string> decode(ContentCoding coding, std::string_view body, std::size_t budget) {
  ContentDecoder decoder(coding, std::string(body), kMostBytes);
  for (;;) {
    const auto done = decoder.run(budget);
    KVIST_CHECK(decoder.output_bytes() <= kMostBytes, "the output is beyond its bound");
    if (!done) return std::nullopt;
    if (*done) return decoder.take_output();
  }
}

}  // namespace

/// The first byte chooses the coding and how much is decompressed at once, which must make no difference.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto coding = static_cast<ContentCoding>(data[0] % 3U);
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto whole = decode(coding, body, kMostBytes * 4);
  const auto pieces = decode(coding, body, 1 + std::size_t{data[0]} * 100);
  KVIST_CHECK(whole == pieces, "the output depends on its pieces");
  return 0;
}
