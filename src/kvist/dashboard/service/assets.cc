#include "kvist/dashboard/service/assets.h"

#include <algorithm>
#include <string>

namespace kvist::dashboard {
namespace {

constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Whether a comma-separated list has the word, or "*"; weights are not looked at but for one of 0.
bool accepts_gzip(std::string_view list) {
  while (!list.empty()) {
    std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), item.size() + 1));
    while (item.starts_with(' ')) item.remove_prefix(1);
    std::string_view word = item.substr(0, item.find(';'));
    while (word.ends_with(' ')) word.remove_suffix(1);
    if (!net::equals_no_case(word, "gzip")) continue;
    const std::size_t q = item.find("q=");
    return q == std::string_view::npos || item.substr(q + 2).find_first_of("123456789") != std::string_view::npos;
  }
  return false;
}

bool has_tag(std::string_view list, std::string_view etag) {
  return list == "*" || list.contains(etag);
}

}  // namespace

void add_page_fields(net::Headers& headers) {
  headers.add("Content-Security-Policy", std::string(kPolicy));
  headers.add("X-Content-Type-Options", "nosniff");
  headers.add("Referrer-Policy", "no-referrer");
  headers.add("Cross-Origin-Resource-Policy", "same-origin");
}

net::HttpResponse asset_answer(std::span<const Asset> files, std::string_view name, const net::HttpRequest& request) {
  net::HttpResponse answer;
  add_page_fields(answer.headers);
  const auto file = std::ranges::find(files, name.empty() ? "index.html" : name, &Asset::name);
  if (file == files.end()) {
    answer.status = 404;
    answer.headers.add("Content-Type", "text/plain; charset=utf-8");
    answer.body = "there is no such file\n";
    return answer;
  }
  answer.headers.add("ETag", std::string(file->etag));
  // Asked for anew each time, because another version of kvist may serve at this address next.
  answer.headers.add("Cache-Control", "no-cache");
  answer.headers.add("Vary", "Accept-Encoding");
  if (has_tag(request.headers.find("If-None-Match").value_or(""), file->etag)) {
    answer.status = 304;
    return answer;
  }
  answer.headers.add("Content-Type", std::string(file->content_type));
  if (accepts_gzip(request.headers.find("Accept-Encoding").value_or(""))) {
    answer.headers.add("Content-Encoding", "gzip");
    answer.body = file->gzip;
  } else {
    answer.body = file->plain;
  }
  return answer;
}

}  // namespace kvist::dashboard
