#include "kvist/kubernetes/answers.h"

#include <utility>

namespace kvist::kubernetes {
namespace {

constexpr int kOk = 200;

Result<WatchEvent::Type> read_type(const JsonObject& event) {
  KVIST_TRY(const std::string_view type, event.require_string("type"));
  if (type == "ADDED") return WatchEvent::Type::kAdded;
  if (type == "MODIFIED") return WatchEvent::Type::kModified;
  if (type == "DELETED") return WatchEvent::Type::kDeleted;
  if (type == "BOOKMARK") return WatchEvent::Type::kBookmark;
  if (type == "ERROR") return WatchEvent::Type::kError;
  return event.wrong("type", "expected ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, got " + in_quotes(type));
}

}  // namespace

Result<WatchEvent> read_watch_event(JsonDocument& document, std::string_view line) {
  KVIST_TRY(const JsonObject event, document.parse_object(line));
  WatchEvent read;
  KVIST_TRY(read.type, read_type(event));
  KVIST_TRY(const JsonObject object, event.require_object("object"));
  if (read.type == WatchEvent::Type::kError) {
    read.api_error = read_status(object, kOk);
    return read;
  }
  KVIST_TRY(const JsonObject metadata, object.require_object("metadata"));
  KVIST_TRY(const std::string_view version, metadata.require_string("resourceVersion"));
  read.resource_version = version;
  read.object = object;
  return read;
}

Result<ListPage> read_list_page(JsonDocument& document, std::string_view text) {
  KVIST_TRY(const JsonObject list, document.parse_object(text));
  KVIST_TRY(const JsonObject metadata, list.require_object("metadata"));
  KVIST_TRY(const std::string_view version, metadata.require_string("resourceVersion"));
  // Without a version nothing could be watched, and the list would be asked for again and again.
  if (version.empty()) return metadata.wrong("resourceVersion", "expected a version, got an empty text");
  KVIST_TRY(const auto token, metadata.find_string("continue"));
  // An API server writes an empty list of a kind that it has built in as null.
  KVIST_TRY_VOID(list.require_or_null("items"));
  KVIST_TRY(const auto items, list.find_array("items"));
  return ListPage{
      .resource_version = std::string(version), .continue_token = std::string(token.value_or("")), .items = items};
}

Result<AccessAnswer> read_access_answer(std::string_view text) {
  JsonDocument document;
  KVIST_TRY(const JsonObject review, document.parse_object(text));
  KVIST_TRY(const JsonObject status, review.require_object("status"));
  AccessAnswer answer;
  KVIST_TRY(answer.allowed, status.require_bool("allowed"));
  KVIST_TRY(const auto reason, status.find_string("reason"));
  answer.reason = reason.value_or("");
  return answer;
}

std::string text_in(const JsonObject& object, std::string_view name) {
  const auto value = object.peek(name);
  const auto text = value ? value->if_string() : std::nullopt;
  return std::string(text.value_or(""));
}

}  // namespace kvist::kubernetes
