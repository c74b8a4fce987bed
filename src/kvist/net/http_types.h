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
  void add(std::string name, std::string value) { fields_.emplace_back(std::move(name), std::move(value)); }
  /// Replaces all fields of that name by one.
  void set(std::string_view name, std::string value);
  void remove(std::string_view name);
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const;
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& fields() const { return fields_; }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

struct HttpRequest {
  std::string method;  ///< "GET", "POST", ...
  std::string target;  ///< path with query, as sent
  Headers headers;
  std::string body;
  /// Of a client's request: it may have effects, so that it is sent on a new connection and never again. On a
  /// connection that was used before, nobody could tell whether a server that closes it has read the request.
  bool only_once = false;

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
