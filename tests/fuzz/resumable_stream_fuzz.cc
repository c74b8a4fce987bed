// fuzz: gateway
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/gateway/answer_relay.h"

namespace {

using kvist::gateway::AnswerRelay;
using kvist::gateway::TokenLog;

struct Relayed {
  std::string out;
  std::vector<kvist::TokenId> tokens;
  bool whole_log = true;
  bool fed = true;
};

/// Relays `text` as a resumable stream, in pieces of `piece` bytes.
Relayed relay(std::string_view text, std::size_t piece) {
  constexpr std::size_t kMostTokens = 64;
  TokenLog log(kMostTokens);
  AnswerRelay relay(true);
  relay.expect_notes(log);
  Relayed relayed;
  while (!text.empty() && relayed.fed) {
    const std::string_view part = text.substr(0, piece);
    text.remove_prefix(part.size());
    const std::string_view token = relay.take_token(part);
    KVIST_CHECK(part.ends_with(token), "what is taken as it is ends the piece");
    relayed.out += token;
    if (token.empty()) relayed.fed = relay.feed(part, relayed.out).has_value();
    KVIST_CHECK(log.tokens().size() <= kMostTokens, "the log is bounded");
  }
  relayed.tokens.assign(log.tokens().begin(), log.tokens().end());
  relayed.whole_log = log.is_whole();
  return relayed;
}

}  // namespace

/// The first byte chooses a way to split the rest. What the client gets and what is known of it must be that of the
/// whole. The end of a line may be split from its line feed, which the parser of events treats as its next event.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Relayed whole = relay(text, std::max<std::size_t>(text.size(), 1));
  const Relayed split = relay(text, 1 + data[0] % 64U);
  if (!whole.fed || !split.fed || text.contains('\r')) return 0;
  KVIST_CHECK(whole.out == split.out, "what is forwarded depends on the split");
  KVIST_CHECK(whole.tokens == split.tokens && whole.whole_log == split.whole_log, "the log depends on the split");
  return 0;
}
