// Requests and responses of HTTP/1.1 as plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvist::net {

/// Header fields in order; names compare without regard to case.
class Headers {
 public:
  void add(std::string name, std::string value) {
    if (fields_.empty()) fields_.reserve(kUsualFields);
    fields_.emplace_back(std::move(name), std::move(value));
  }
  /// Replaces all fields of that name by one.
  void set(std::string_view name, std::string value);
  void remove(std::string_view name);
  /// Removes the fields whose name `is_unwanted`.
  template <class IsUnwanted>
  void remove_if(IsUnwanted is_unwanted) {
    std::erase_if(fields_, [&](const auto& field) { return is_unwanted(std::string_view(field.first)); });
  }
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const;
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& fields() const { return fields_; }

 private:
  static constexpr std::size_t kUsualFields = 8;
  std::vector<std::pair<std::string, std::string>> fields_;
};

/// Whether `text` is `lower` without regard to case. Requires: `lower` has no capital letter.
[[nodiscard]] bool equals_no_case(std::string_view text, std::string_view lower);

struct HttpRequest {
  std::string method;  ///< "GET", "POST", ...
  std::string target;  ///< path with query, as sent
  Headers headers;
  std::string body;
  /// Only for requests that HttpClient sends: it may have effects, so that it is never sent again. If a server closes a
  /// connection that was used before, nobody can tell whether it has read the request. So that this is rare, no
  /// connection is used that was idle for long.
  bool only_once = false;
  /// The target that the client sent, where a service has changed it to another endpoint's; otherwise empty.
  std::string came_to = {};

  /// The target without its query.
  [[nodiscard]] std::string_view path() const;
};

struct HttpResponse {
  int status = 200;
  Headers headers;
  std::string body;
};

/// Reason phrase of a status code: "OK", "Not Found".
[[nodiscard]] std::string_view reason_phrase(int status);

}  // namespace kvist::net
