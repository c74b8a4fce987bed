#include "kvist/results/agent_rows.h"

#include <algorithm>
#include <utility>

namespace kvist::results {
namespace {

/// As for instants: a span of two of them is no more than twice this.
constexpr std::int64_t kMostSpanNs = std::int64_t{1} << 62;

std::optional<std::int64_t> nanoseconds_of(const std::optional<Duration>& span) {
  return span ? std::optional(span->count()) : std::nullopt;
}

/// Null is nothing.
std::optional<Duration> read_span(Statement& row) {
  const std::optional<std::uint64_t> bits = row.optional_integer<std::uint64_t>();
  if (!bits) return std::nullopt;
  const auto ns = static_cast<std::int64_t>(*bits);
  if (ns < -kMostSpanNs || ns > kMostSpanNs) row.column_failed("is out of range");
  return Duration(std::clamp(ns, -kMostSpanNs, kMostSpanNs));
}

Result<void> insert_agent(Statement& insert, std::int64_t level, std::int64_t position, const LoadAgent& agent) {
  const ClientHealth& h = agent.client;
  const bool certified = h.certificate.has_value();
  const ClientCertificate c = h.certificate.value_or(ClientCertificate());
  const bool watched = c.pauses.has_value();
  const ClientPauses p = c.pauses.value_or(ClientPauses());
  const auto count = [](bool known, std::uint64_t value) { return known ? std::optional(value) : std::nullopt; };
  const auto real = [](bool known, double value) { return known ? std::optional(value) : std::nullopt; };
  return insert.run(level, position, agent.name, agent.threads, agent.turns, nanoseconds_of(agent.clock_ahead),
                    agent.clock_bound.count(), nanoseconds_of(agent.clock_drift), agent.lost, h.loop_delay_p99_ms,
                    h.loop_delay_max_ms, h.cpu_share, h.send_delay_p99_ms, count(certified, c.chunks),
                    count(certified, c.stamped_chunks), real(certified, c.receive_delay_p50_ms),
                    real(certified, c.receive_delay_p99_ms), real(certified, c.receive_delay_max_ms),
                    real(certified, c.dispatch_delay_p99_ms), real(certified, c.dispatch_delay_max_ms),
                    count(certified, c.loop_stalls), real(certified, c.loop_stalled_ms), c.run_queue_share,
                    c.steal_share, count(watched, p.count), real(watched, p.share), real(watched, p.p99_ms),
                    real(watched, p.p999_ms), real(watched, p.max_ms), count(watched, p.real_time ? 1 : 0),
                    real(watched, p.cpu_share));
}

/// Members in the order of the table's columns.
ClientCertificate read_certificate_after_chunks(Statement& row, std::uint64_t chunks) {
  ClientCertificate c;
  c.chunks = chunks;
  c.stamped_chunks = row.integer_as<std::uint64_t>();
  for (const auto delay : {&ClientCertificate::receive_delay_p50_ms, &ClientCertificate::receive_delay_p99_ms,
                           &ClientCertificate::receive_delay_max_ms, &ClientCertificate::dispatch_delay_p99_ms,
                           &ClientCertificate::dispatch_delay_max_ms}) {
    c.*delay = row.real();
  }
  c.loop_stalls = row.integer_as<std::uint64_t>();
  c.loop_stalled_ms = row.real();
  c.run_queue_share = row.optional_real();
  c.steal_share = row.optional_real();
  const auto pauses = row.optional_integer<std::uint64_t>();
  if (!pauses) return c;
  ClientPauses& p = c.pauses.emplace();
  p.count = *pauses;
  for (const auto value :
       {&ClientPauses::share, &ClientPauses::p99_ms, &ClientPauses::p999_ms, &ClientPauses::max_ms}) {
    p.*value = row.real();
  }
  p.real_time = row.integer() != 0;
  p.cpu_share = row.real();
  return c;
}

LoadAgent read_agent(Statement& row) {
  LoadAgent agent;
  agent.name = row.text();
  agent.threads = row.integer_as<std::uint32_t>();
  agent.turns = row.integer_as<std::uint64_t>();
  agent.clock_ahead = read_span(row);
  agent.clock_bound = read_span(row).value_or(Duration{});
  agent.clock_drift = read_span(row);
  std::string lost = row.text();
  if (!lost.empty()) agent.lost = std::move(lost);
  for (const auto delay : {&ClientHealth::loop_delay_p99_ms, &ClientHealth::loop_delay_max_ms, &ClientHealth::cpu_share,
                           &ClientHealth::send_delay_p99_ms}) {
    agent.client.*delay = row.real();
  }
  if (const auto chunks = row.optional_integer<std::uint64_t>()) {
    agent.client.certificate = read_certificate_after_chunks(row, *chunks);
  }
  return agent;
}

void read_agent_share(Statement& row, std::vector<LoadAgent>& agents) {
  const auto agent = row.integer_as<std::uint64_t>();
  const std::string figure = row.text();
  const ClientShare share{.low_ms = row.real(), .high_ms = row.real()};
  const auto* const known = std::ranges::find(kBoundedFigureNames, figure);
  if (known == kBoundedFigureNames.end()) return row.column_failed("is not the name of a figure");
  if (agent >= agents.size() || !agents[agent].client.certificate) return row.column_failed("has no agent");
  agents[agent].client.certificate->shares[static_cast<std::size_t>(known - kBoundedFigureNames.begin())] = share;
}

}  // namespace

Result<void> insert_agents(const Connection& connection, std::int64_t level, const std::vector<LoadAgent>& agents) {
  if (agents.empty()) return {};
  KVIST_TRY(Statement insert,
            connection.prepare("INSERT INTO load_agents VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, "
                               "?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, "
                               "?30, ?31)"));
  KVIST_TRY(Statement insert_share, connection.prepare("INSERT INTO load_agent_shares VALUES (?1, ?2, ?3, ?4, ?5)"));
  std::int64_t position = 0;
  for (const LoadAgent& agent : agents) {
    KVIST_TRY_VOID(insert_agent(insert, level, position, agent));
    if (agent.client.certificate) {
      const auto& shares = agent.client.certificate->shares;
      for (std::size_t i = 0; i < shares.size(); ++i) {
        if (!shares[i]) continue;
        KVIST_TRY_VOID(
            insert_share.run(level, position, kBoundedFigureNames[i], shares[i]->low_ms, shares[i]->high_ms));
      }
    }
    ++position;
  }
  return {};
}

Result<std::vector<LoadAgent>> select_agents(const Connection& connection, std::int64_t level) {
  std::vector<LoadAgent> agents;
  KVIST_TRY(Statement rows,
            connection.prepare("SELECT agent, threads, turns, clock_ahead_ns, clock_bound_ns, clock_drift_ns, "
                               "ifnull(lost, ''), loop_delay_p99_ms, loop_delay_max_ms, cpu_share, send_delay_p99_ms, "
                               "chunks, stamped_chunks, receive_delay_p50_ms, receive_delay_p99_ms, "
                               "receive_delay_max_ms, dispatch_delay_p99_ms, dispatch_delay_max_ms, loop_stalls, "
                               "loop_stalled_ms, run_queue_share, steal_share, pauses, pause_share, pause_p99_ms, "
                               "pause_p999_ms, pause_max_ms, pause_real_time, pause_cpu_share "
                               "FROM load_agents WHERE level = ?1 ORDER BY position"));
  rows.bind_all(level);
  for (;;) {
    KVIST_TRY(const bool row, rows.step());
    if (!row) break;
    agents.push_back(read_agent(rows));
  }
  KVIST_TRY(Statement shares, connection.prepare("SELECT agent, figure, low_ms, high_ms FROM load_agent_shares "
                                                 "WHERE level = ?1 ORDER BY agent, figure"));
  shares.bind_all(level);
  for (;;) {
    KVIST_TRY(const bool row, shares.step());
    if (!row) return agents;
    read_agent_share(shares, agents);
  }
}

}  // namespace kvist::results
