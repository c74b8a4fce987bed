#include "kvist/deploy/ready_line.h"

#include <fmt/format.h>

#include <charconv>

namespace kvist::deploy {
namespace {

std::unexpected<Error> not_ready(std::string_view line) {
  return fail(ErrorCode::kCorrupt, fmt::format("expected \"ready http=PORT ...\", got \"{}\"", line));
}

}  // namespace

Result<ReadyPorts> parse_ready_line(std::string_view line) {
  constexpr std::string_view kPrefix = "ready";
  if (!line.starts_with(kPrefix)) return not_ready(line);
  ReadyPorts ports;
  std::string_view rest = line.substr(kPrefix.size());
  while (!rest.empty()) {
    if (rest.front() != ' ') return not_ready(line);
    rest.remove_prefix(1);
    const std::string_view item = rest.substr(0, rest.find(' '));
    rest.remove_prefix(item.size());
    const std::size_t equals = item.find('=');
    std::uint16_t port = 0;
    if (equals == std::string_view::npos) return not_ready(line);
    const auto [end, status] = std::from_chars(item.data() + equals + 1, item.data() + item.size(), port);
    if (status != std::errc() || end != item.data() + item.size()) return not_ready(line);
    const std::string_view name = item.substr(0, equals);
    if (name == "http") ports.http = port;
    if (name == "admin") ports.admin = port;
    if (name == "kv_events") ports.kv_events = port;
    if (name == "kv_replay") ports.kv_replay = port;
  }
  if (ports.http == 0) return not_ready(line);
  return ports;
}

}  // namespace kvist::deploy
