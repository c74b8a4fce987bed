#include "kvist/loadgen/redaction.h"

#include <algorithm>
#include <cstddef>

namespace kvist::loadgen {
namespace {

constexpr std::size_t kLeastCharacters = 6;

void add(std::string_view value, std::vector<std::string>& secrets) {
  if (value.size() >= kLeastCharacters) secrets.emplace_back(value);
}

void add_query(std::string_view path, std::vector<std::string>& secrets) {
  const std::size_t mark = path.find('?');
  if (mark == std::string_view::npos) return;
  std::string_view rest = path.substr(mark + 1);
  add(rest, secrets);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view field = rest.substr(0, end);
    if (const std::size_t equals = field.find('='); equals != std::string_view::npos) {
      add(field.substr(equals + 1), secrets);
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

}  // namespace

std::vector<std::string> secrets_of(const std::string& bearer_key, const net::Headers& headers, std::string_view path) {
  std::vector<std::string> secrets;
  add(bearer_key, secrets);
  for (const auto& [name, value] : headers.fields()) {
    add(value, secrets);
    if (const std::size_t space = value.rfind(' '); space != std::string::npos) {
      add(std::string_view(value).substr(space + 1), secrets);
    }
  }
  add_query(path, secrets);
  // The longest first: a whole value must not lose only its last word.
  std::ranges::sort(secrets, std::ranges::greater{}, &std::string::size);
  return secrets;
}

std::string without_secrets(std::string text, const std::vector<std::string>& secrets) {
  constexpr std::string_view kHidden = "...";
  for (const std::string& secret : secrets) {
    for (std::size_t at = text.find(secret); at != std::string::npos; at = text.find(secret, at + kHidden.size())) {
      text.replace(at, secret.size(), kHidden);
    }
  }
  return text;
}

}  // namespace kvist::loadgen
