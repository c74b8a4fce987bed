// Asks requests for one of the worker's API keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kvist/net/bearer_key.h"
#include "kvist/net/http_types.h"

namespace kvist::worker {

/// All keys may do the same. Threads: the loop's.
class KeyCheck {
 public:
  /// Requires: `keys` were read from `file`.
  KeyCheck(std::string file, net::BearerKeys keys) : file_(std::move(file)), keys_(std::move(keys)) {}

  /// 401, unless one of the keys was sent.
  [[nodiscard]] std::optional<net::HttpResponse> refuse(const net::Headers& headers, std::string_view request_id);
  /// The file was read again.
  void replace(net::BearerKeys keys) { keys_ = std::move(keys); }

  [[nodiscard]] const std::string& file() const { return file_; }
  [[nodiscard]] std::size_t size() const { return keys_.size(); }
  [[nodiscard]] std::uint64_t refused() const { return refused_; }

 private:
  std::string file_;
  net::BearerKeys keys_;
  std::uint64_t refused_ = 0;
};

}  // namespace kvist::worker
