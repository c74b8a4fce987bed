// Answers of the API server, read without knowing the kind of object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/json.h"
#include "kvist/kubernetes/api_error.h"

namespace kvist::kubernetes {

/// The bound of one event of a watch: etcd takes objects of 1.5 MB, and JSON may be several times larger.
inline constexpr std::size_t kMostEventBytes = 8U << 20;

/// One line of a watch.
struct WatchEvent {
  enum class Type : std::uint8_t { kAdded, kModified, kDeleted, kBookmark, kError };
  Type type = Type::kError;
  std::string resource_version = {};       ///< of the object; empty for kError
  std::optional<JsonObject> object = {};   ///< valid as long as the document that read it; nothing for kError
  std::optional<ApiError> api_error = {};  ///< of kError: 410, for instance
};
/// Errors: kCorrupt; of an unknown type too, because its meaning for the copy is unknown.
[[nodiscard]] Result<WatchEvent> read_watch_event(JsonDocument& document, std::string_view line);

/// One page of a list.
struct ListPage {
  std::string resource_version;
  std::string continue_token;      ///< empty: it is the last page
  std::optional<JsonArray> items;  ///< nothing: there are none. Valid as long as the document that read it
};
[[nodiscard]] Result<ListPage> read_list_page(JsonDocument& document, std::string_view text);

/// A text of an object; empty if there is none of that name. For what is only shown or compared.
[[nodiscard]] std::string text_in(const JsonObject& object, std::string_view name);

/// Whether a SelfSubjectAccessReview was answered with yes, and if not, the reason.
struct AccessAnswer {
  bool allowed = false;
  std::string reason = {};
};
[[nodiscard]] Result<AccessAnswer> read_access_answer(std::string_view text);

}  // namespace kvist::kubernetes
