#include "kvist/loadgen/redaction.h"

#include <algorithm>
#include <cstddef>

namespace kvist::loadgen {
namespace {

constexpr std::size_t kLeastCharacters = 6;

void add(std::string_view value, std::vector<std::string>& secrets) {
  if (value.size() >= kLeastCharacters) secrets.emplace_back(value);
}

}  // namespace

std::vector<std::string> secrets_of(const std::string& bearer_key, const net::Headers& headers) {
  std::vector<std::string> secrets;
  add(bearer_key, secrets);
  for (const auto& [name, value] : headers.fields()) {
    add(value, secrets);
    if (const std::size_t space = value.rfind(' '); space != std::string::npos) {
      add(std::string_view(value).substr(space + 1), secrets);
    }
  }
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
