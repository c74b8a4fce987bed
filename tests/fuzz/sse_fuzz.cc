// fuzz: net
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/net/sse.h"

namespace {

constexpr std::size_t kMaxEventBytes = 256;

struct Parsed {
  std::vector<std::string> data;
  std::string bytes;
  bool whole = true;  // no event was too large
};

/// Feeds `text` in pieces of `piece` bytes.
Parsed parse(std::string_view text, std::size_t piece) {
  kvist::net::SseParser parser(kMaxEventBytes);
  Parsed out;
  while (!text.empty() && out.whole) {
    const std::string_view part = text.substr(0, piece);
    text.remove_prefix(part.size());
    kvist::net::SseParser fed = parser;
    const auto direct = parser.data_of_whole_event(part);
    out.whole = parser.feed(part).has_value();
    kvist::net::SseParser::Event event;
    if (direct) {
      KVIST_CHECK(fed.feed(part) && fed.next(event) && event.data == *direct && event.raw == part,
                  "a whole event is the one that is read");
      KVIST_CHECK(!fed.next(event) && fed.rest().empty(), "a whole event leaves nothing");
    }
    while (parser.next(event)) {
      if (!event.data.empty()) out.data.emplace_back(event.data);
      out.bytes += event.raw;
    }
  }
  out.bytes += parser.rest();
  return out;
}

}  // namespace

/// The first byte chooses a way to split the rest: the events must be those of the whole.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Parsed whole = parse(text, std::max<std::size_t>(text.size(), 1));
  const Parsed split = parse(text, 1 + data[0] % 32U);
  if (!whole.whole || !split.whole) return 0;
  KVIST_CHECK(whole.data == split.data, "events depend on the split");
  KVIST_CHECK(whole.bytes == text && split.bytes == text, "bytes were changed");
  return 0;
}
