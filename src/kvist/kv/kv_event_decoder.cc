#include "kvist/kv/kv_event_decoder.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <utility>

#include "kvist/kv/kv_event_reader.h"
#include "kvist/kv/msgpack.h"

namespace kvist::kv {
namespace {

using Kind = MsgpackToken::Kind;

/// Seconds since 1970; 0 if there is no usable number, because nothing depends on the time.
double to_timestamp(const MsgpackToken& token) {
  if (token.kind == Kind::kReal && std::isfinite(token.real)) return token.real;
  if (token.kind == Kind::kUnsigned) return static_cast<double>(token.integer);
  return 0;
}

std::optional<std::int32_t> to_rank(const MsgpackToken& token) {
  if (token.kind != Kind::kUnsigned && token.kind != Kind::kNegative) return std::nullopt;
  const auto rank = static_cast<std::int32_t>(token.integer);
  const bool same = token.kind == Kind::kUnsigned
                        ? rank >= 0 && static_cast<std::uint64_t>(rank) == token.integer
                        : static_cast<std::uint64_t>(static_cast<std::int64_t>(rank)) == token.integer;
  return same ? std::optional(rank) : std::nullopt;
}

template <class Value>
void make_ready(GrowBuffer<Value>& list) {
  list.cut(0);
  if (list.capacity() * sizeof(Value) > KvEventDecoder::kKeptBytes) list.release();
}

}  // namespace

/// One walk over a payload. Functions that return bool return false if the payload ends early or is no msgpack.
class KvEventDecoder::Pass {
 public:
  explicit Pass(KvEventDecoder& decoder)
      : events_(decoder.events_), hashes_(decoder.hashes_), tokens_(decoder.tokens_), reader_(hashes_, tokens_) {}

  [[nodiscard]] Result<KvEventBatchView> decode(std::span<const std::uint8_t> payload) {
    MsgpackReader reader(payload);
    const auto outer = reader.next();
    if (!outer) return corrupt("the payload is empty or no msgpack");
    if (outer->kind != Kind::kArray && outer->kind != Kind::kMap) return corrupt("the batch is neither array nor map");
    const bool whole = outer->kind == Kind::kArray ? read_array(reader, outer->count) : read_map(reader, outer->count);
    if (!whole) return corrupt("the payload ends early or is no msgpack");
    if (!reader.at_end()) return corrupt("bytes follow the batch");
    if (!has_list_) return corrupt("the batch has no list of events");
    set_lists();
    batch_.events = events_;
    return std::move(batch_);
  }

 private:
  static std::unexpected<Error> corrupt(std::string_view what) {
    return fail(ErrorCode::kCorrupt, fmt::format("KV events: {}", what));
  }

  [[nodiscard]] bool read_array(MsgpackReader& reader, std::uint32_t items) {
    constexpr std::string_view kOrder[] = {"ts", "events", "data_parallel_rank"};
    for (std::uint32_t i = 0; i < items; ++i) {
      if (!read_part(reader, i < std::size(kOrder) ? kOrder[i] : "")) return false;
    }
    return true;
  }

  [[nodiscard]] bool read_map(MsgpackReader& reader, std::uint32_t pairs) {
    for (std::uint32_t i = 0; i < pairs; ++i) {
      const auto key = reader.next_value();
      if (!key || !read_part(reader, key->kind == Kind::kString ? key->text() : "")) return false;
    }
    return true;
  }

  [[nodiscard]] bool read_part(MsgpackReader& reader, std::string_view name) {
    if (name == "events") return read_events(reader);
    const auto value = reader.next_value();
    if (!value) return false;
    if (name == "ts") batch_.timestamp_s = to_timestamp(*value);
    if (name == "data_parallel_rank") batch_.data_parallel_rank = to_rank(*value);
    return true;
  }

  /// If a map has several lists of events, the last one counts.
  [[nodiscard]] bool read_events(MsgpackReader& reader) {
    events_.clear();
    hashes_.cut(0);
    tokens_.cut(0);
    batch_.skipped_events = 0;
    batch_.unknown_fields = {};
    batch_.first_problem.clear();
    MsgpackReader behind = reader;
    const auto list = behind.next();
    has_list_ = list && list->kind == Kind::kArray;
    if (!has_list_) return reader.skip().has_value();
    reader = behind;
    for (std::uint32_t i = 0; i < list->count; ++i) {
      if (!read_event(reader)) return false;
    }
    return true;
  }

  [[nodiscard]] bool read_event(MsgpackReader& reader) {
    const std::size_t hashes = hashes_.size();
    const std::size_t tokens = tokens_.size();
    KvEventView& event = events_.emplace_back();
    const KvEventReader::Outcome outcome = reader_.read(reader, event);
    if (outcome == KvEventReader::Outcome::kUsed) {
      const FieldCounts& unknown = reader_.unknown_fields();
      if (!unknown.empty()) batch_.unknown_fields.add(unknown);
      return true;
    }
    if (outcome == KvEventReader::Outcome::kBroken) return false;
    if (batch_.skipped_events++ == 0) batch_.first_problem = reader_.problem();
    events_.pop_back();
    hashes_.cut(hashes);
    tokens_.cut(tokens);
    return true;
  }

  /// Sets where the lists of each event begin: at the end of those of the event before it. This comes last, because
  /// lists move while they grow.
  void set_lists() {
    const ExternalHash* hashes = hashes_.values().data();
    const TokenId* tokens = tokens_.values().data();
    for (KvEventView& event : events_) {
      event.hashes = {hashes, event.hashes.size()};
      event.tokens = {tokens, event.tokens.size()};
      hashes += event.hashes.size();
      tokens += event.tokens.size();
    }
  }

  std::vector<KvEventView>& events_;
  GrowBuffer<ExternalHash>& hashes_;
  GrowBuffer<TokenId>& tokens_;
  KvEventReader reader_;
  KvEventBatchView batch_;
  bool has_list_ = false;
};

Result<KvEventBatchView> KvEventDecoder::decode(std::span<const std::uint8_t> payload) {
  make_ready(hashes_);
  make_ready(tokens_);
  events_.clear();
  if (events_.capacity() * sizeof(KvEventView) > kKeptBytes) events_.shrink_to_fit();
  return Pass(*this).decode(payload);
}

}  // namespace kvist::kv
