#include "kvist/gateway/answer_relay.h"

#include <algorithm>
#include <utility>

#include "kvist/base/json_writer.h"
#include "kvist/openai/codec.h"

namespace kvist::gateway {
namespace {

constexpr std::string_view kDone = "[DONE]";

// The name of a field in quotes, and the place of a character in it that is rare in chunks. Looking for that one first
// is ten times as fast as looking for the quote that the name begins with, and each chunk is searched for three names.
struct Key {
  std::string_view name;
  std::size_t rare;
};
constexpr Key kUsage{.name = R"("usage")", .rare = 4};
constexpr Key kFinishReason{.name = R"("finish_reason")", .rare = 7};
constexpr Key kError{.name = R"("error")", .rare = 2};
static_assert(kUsage.name[kUsage.rare] == 'g' && kFinishReason.name[kFinishReason.rare] == '_');

// The position of the key from `at` on, or npos.
std::size_t find(std::string_view data, const Key& key, std::size_t at) {
  for (std::size_t rare = data.find(key.name[key.rare], at + key.rare); rare != std::string_view::npos;
       rare = data.find(key.name[key.rare], rare + 1)) {
    if (data.substr(rare - key.rare).starts_with(key.name)) return rare - key.rare;
  }
  return std::string_view::npos;
}

// Whether the chunk has a field of this name that is not null: servers write "usage":null and "finish_reason":null into
// every chunk. Content is not mistaken for the key, because quotes within JSON strings are escaped. Only a content that
// is exactly "usage" causes a needless parse.
bool mentions(std::string_view data, const Key& key) {
  for (std::size_t at = find(data, key, 0); at != std::string_view::npos; at = find(data, key, at + 1)) {
    const std::size_t value = data.find_first_not_of(": \t", at + key.name.size());
    if (value == std::string_view::npos || !data.substr(value).starts_with("null")) return true;
  }
  return false;
}

// Whether a chunk behind the first token can only be one more token.
bool is_one_token(std::string_view data) {
  return data != kDone && !mentions(data, kUsage) && !mentions(data, kFinishReason) &&
         find(data, kError, 0) == std::string_view::npos;
}

bool names_text(std::string_view before_colon) {
  while (before_colon.ends_with(' ') || before_colon.ends_with('\t')) before_colon.remove_suffix(1);
  for (const std::string_view name :
       {R"("content")", R"("text")", R"("reasoning_content")", R"("reasoning")", R"("arguments")"}) {
    if (before_colon.ends_with(name)) return true;
  }
  return false;
}

// The bytes of the text that a chunk carries. Within JSON's strings quotes are escaped, so that no text is taken for
// one of the names, and a text ends at the first quote that is not. A chunk has few colons.
std::size_t text_bytes_of(std::string_view data) {
  std::size_t sum = 0;
  for (std::size_t at = data.find(':'); at != std::string_view::npos; at = data.find(':', at)) {
    const std::string_view before = data.substr(0, at);
    at = data.find_first_not_of(": \t", at);
    if (at == std::string_view::npos) break;
    if (data[at] != '"' || !names_text(before)) continue;
    const std::size_t begin = ++at;
    while (at < data.size() && data[at] != '"') at += data[at] == '\\' ? 2 : 1;
    at = std::min(at, data.size());
    sum += at - begin;
  }
  return sum;
}

// The event, which is one JSON object, with a field added at its end.
std::string with_fingerprint(std::string_view event, std::string_view fingerprint) {
  const std::size_t end = event.rfind('}');
  std::string out(event.substr(0, end));
  out += R"(,"system_fingerprint":)";
  append_json_string(out, fingerprint);
  out += event.substr(end);
  return out;
}

}  // namespace

Result<void> AnswerRelay::feed(std::string_view bytes, std::string& out) {
  KVIST_TRY_VOID(parser_.feed(bytes));
  net::SseParser::Event event;
  while (parser_.next(event)) {
    if (log_ != nullptr) take_note(event.raw);
    const Fate fate = event.data.empty() ? Fate::kForward : inspect(event.data);
    if (log_ == nullptr) {
      forward(event.raw, fate, out);
      continue;
    }
    if (state_.server_failed()) {
      forward(event.raw, fate, failed_);
      continue;
    }
    if (group_events_ == 0) {
      // Text without a note would be missing in the log; a comment is no part of the answer.
      if (!event.data.empty()) log_->on_unreadable();
      forward(event.raw, fate, out);
      continue;
    }
    forward(event.raw, fate, group_);
    if (--group_events_ > 0) continue;
    out += std::exchange(group_, {});
    log_->add(group_tokens_);
    group_tokens_.clear();
  }
  return {};
}

void AnswerRelay::forward(std::string_view raw, Fate fate, std::string& out) {
  if (fate == Fate::kDrop && !held_.empty() && !state_.fingerprint.empty())
    held_ = with_fingerprint(held_, state_.fingerprint);
  release(out);
  if (fate == Fate::kForward) out += raw;
  if (fate == Fate::kStamp) out += with_fingerprint(raw, fingerprint_);
  if (fate == Fate::kHold) held_ = raw;
}

void AnswerRelay::take_note(std::string_view& raw) {
  if (group_events_ > 0) return;
  const auto note = openai::read_token_note(raw);
  if (!note) return;
  raw.remove_prefix(note->bytes);
  group_events_ = note->events;
  openai::append_tokens_of(*note, group_tokens_);
}

void AnswerRelay::release_error(std::string& out) {
  if (failed_.empty()) return;
  out += std::exchange(failed_, {});
  group_events_ = 0;
  log_ = nullptr;
}

std::string_view AnswerRelay::take_token(std::string_view bytes) {
  if (!state_.first_token || !held_.empty()) return {};
  std::optional<openai::TokenNote> note;
  if (log_ != nullptr) {
    if (group_events_ > 0 || state_.server_failed()) return {};
    note = openai::read_token_note(bytes);
    if (!note || note->events != 1) return {};
    bytes.remove_prefix(note->bytes);
  }
  const std::optional<std::string_view> data = parser_.data_of_whole_event(bytes);
  if (!data || data->empty() || !is_one_token(*data)) return {};
  ++state_.tokens;
  if (measures_text_) state_.text_bytes += text_bytes_of(*data);
  if (note) log_->add(*note);
  return bytes;
}

void AnswerRelay::release(std::string& out) {
  out += held_;
  held_.clear();
}

AnswerRelay::Fate AnswerRelay::inspect(std::string_view data) {
  if (data == kDone) {
    state_.done = true;
    return Fate::kForward;
  }
  if (measures_text_) state_.text_bytes += text_bytes_of(data);
  if (state_.first_token && is_one_token(data)) {
    ++state_.tokens;
    return Fate::kForward;
  }
  auto chunk = openai::parse_chunk(data);
  if (!chunk) {
    ++state_.unreadable;
    return Fate::kForward;
  }
  state_.readable = true;
  if (chunk->usage) state_.usage = chunk->usage;
  if (chunk->error) {
    state_.error = std::move(chunk->error);
    state_.error_status = chunk->error_status;
  }
  if (chunk->generates || chunk->finish_reason) state_.first_token = true;
  if (chunk->generates) ++state_.tokens;
  if (!usage_wanted_ && chunk->usage_only && chunk->usage) {
    state_.fingerprint = std::move(chunk->system_fingerprint);
    return Fate::kDrop;
  }
  if (!chunk->finish_reason) return Fate::kForward;
  state_.finished = true;
  if (usage_wanted_ || !chunk->system_fingerprint.empty()) return Fate::kForward;
  return fingerprint_.empty() ? Fate::kHold : Fate::kStamp;
}

}  // namespace kvist::gateway
