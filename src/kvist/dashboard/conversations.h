// The conversations of a load: which there are, and the turns of each with their texts, in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/json_writer.h"
#include "kvist/base/time.h"
#include "kvist/workload/load_feed.h"

namespace kvist::dashboard {

/// Instants of the load's clock as Unix time in milliseconds.
using UnixMs = std::function<std::int64_t(TimePoint)>;

struct ShownTurn {
  std::uint32_t turn = 0;  ///< from 0
  bool ended = false;
  workload::TurnSample sample = {};  ///< complete if it has ended; else only what is known when it begins
  TimePoint begun;
  std::vector<workload::ShownMessage> messages = {};
  workload::ShownMessage answer = {};
};

struct ShownConversation {
  ConversationId id;
  std::uint64_t run = 0;  ///< which load of this process: ids begin anew with each
  std::vector<ShownTurn> turns = {};
  bool texts_kept = true;
  std::size_t text_bytes = 0;

  [[nodiscard]] std::string key() const;
};

/// The last conversations. When their texts take too much memory, the oldest conversation that has ended loses its
/// texts; when there are too many conversations, it is dropped. Threads: one.
class Conversations {
 public:
  struct Limits {
    std::size_t conversations = 20'000;
    std::size_t turns = 64;                          ///< of one; further ones are not shown
    std::size_t text_bytes = std::size_t{24} << 20;  ///< of all
  };
  static constexpr std::size_t kListed = 200;

  Conversations() = default;
  explicit Conversations(Limits limits) : limits_(limits) {}

  /// A load begins: what is under way of the one before is abandoned.
  void begin_run();
  void add(const workload::LoadBatch& batch);

  /// Grows with each change.
  [[nodiscard]] std::uint64_t version() const { return version_; }
  [[nodiscard]] std::size_t size() const { return all_.size(); }
  [[nodiscard]] std::size_t text_bytes() const { return text_bytes_; }
  /// {"type":"conversations",...}: the newest first.
  [[nodiscard]] std::string list_json(TimePoint now, const UnixMs& unix_ms) const;
  /// A conversation with its turns; nothing: there is none of that id.
  [[nodiscard]] std::optional<std::string> json(std::string_view key, TimePoint now, const UnixMs& unix_ms) const;

 private:
  using Key = std::pair<std::uint64_t, ConversationId>;  // run, id
  [[nodiscard]] ShownConversation& find_or_add(ConversationId id);
  void keep_bounds();
  void drop_texts(ShownConversation& conversation);

  Limits limits_;
  std::map<Key, ShownConversation> all_;  // in the order in which they began, nearly
  std::size_t text_bytes_ = 0;
  std::uint64_t run_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t version_ = 0;
};

/// The fields of one, in an object that is begun. `with_turns`: and its turns.
void write_conversation(JsonWriter& json, const ShownConversation& conversation, bool with_turns, TimePoint now,
                        const UnixMs& unix_ms);

}  // namespace kvist::dashboard
