// The page's files, which are part of the program.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "kvist/net/http_types.h"

namespace kvist::dashboard {

struct Asset {
  std::string_view name;          ///< "app.js"
  std::string_view content_type;  ///< with its charset
  std::string_view etag;          ///< quoted
  std::string_view gzip;          ///< the file, compressed
  std::string_view plain;         ///< and as it is
};

/// Made at build time from web/dist (cmake/KvistDashboard.cmake).
[[nodiscard]] std::span<const Asset> assets();

/// The answer to GET /dashboard/NAME; 404 for a name that there is not. An empty name is index.html.
[[nodiscard]] net::HttpResponse asset_answer(std::span<const Asset> files, std::string_view name,
                                             const net::HttpRequest& request);

/// Fields of every answer of the dashboard: a page that gets hold of a text can neither run nor load anything.
void add_page_fields(net::Headers& headers);

}  // namespace kvist::dashboard
