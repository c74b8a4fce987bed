// fuzz: workload
// The reader of conversations: any bytes give at least one with at least one turn each, or an error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kvist/base/check.h"
#include "kvist/workload/chat_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto chats = kvist::workload::read_chats(text, "fuzz", {.characters_per_token = 4, .replies = true});
  if (!chats) return 0;
  KVIST_CHECK(!chats->empty(), "an empty list is an error");
  for (const kvist::workload::ChatScript& chat : *chats) {
    KVIST_CHECK(!chat.turns.empty(), "a conversation has a turn");
    for (const auto& turn : chat.turns) KVIST_CHECK(turn.max_tokens <= 1'000'000, "limits are bounded");
  }
  return 0;
}
