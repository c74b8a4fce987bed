// The last decisions of a router, and what came of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kvist/routing/decision_record.h"

namespace kvist::routing {

/// A decision that was just made, as views of the router's data.
struct DecisionView {
  const PolicyQuery& query;
  std::string_view name = {};
  std::uint32_t prompt_blocks = 0;
  std::span<const WorkerId> excluded = {};
  std::string_view adapter = {};
  std::optional<WorkerId> session_worker = {};
  std::span<const WorkerId> held_back = {};
  spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
  std::uint64_t seed = 0;
  std::uint64_t policy_state = 0;
  std::span<const Candidate> candidates = {};  ///< with the costs the policy gave them
  std::size_t chosen = 0;                      ///< position among them
  std::size_t left_out = 0;                    ///< further candidates, as in a DecisionRecord
  std::optional<FoundFleet> fleet = {};        ///< RoutingPolicy::found()
  std::size_t most_kept = 0;                   ///< in place of Options::candidates, if less; 0: those
  DecisionReason reason = DecisionReason::kPolicy;
  TimePoint at = {};
};

/// A ring buffer: the newest decision takes the place and the memory of the oldest. The number of decisions and of
/// their candidates is bounded, and so are the bytes: about 170 per candidate and 600 per decision, which is at most 6
/// MB with the defaults. A decision allocates nothing once its place was used for one as large. Threads: the router's.
class DecisionLog {
 public:
  struct Options {
    std::size_t decisions = 512;
    /// Per decision: the chosen one and the others of least cost. If they are more than one, and none of them is idle
    /// (without requests), the cheapest idle candidate is kept too, so that the record says why it was passed over.
    std::size_t candidates = 64;
  };
  explicit DecisionLog(Options options);

  /// Returns the decision's number. Numbers count up from 1.
  std::uint64_t on_decided(const DecisionView& decision);
  /// The calls below name a decision by its number. They do nothing if it is no longer in the ring.
  void on_first_token(std::uint64_t decision, TimePoint now);
  void on_usage(std::uint64_t decision, std::uint64_t cached_tokens);
  /// The attempt failed. The text is cut at kMaxFailureBytes.
  void on_failed(std::uint64_t decision, std::string_view failure);
  static constexpr std::size_t kMaxFailureBytes = 200;
  void on_finished(std::uint64_t decision, bool completed, std::uint64_t output_tokens, TimePoint now);

  /// Number of decisions ever made. The log holds the last size() of them.
  [[nodiscard]] std::uint64_t total() const { return total_; }
  [[nodiscard]] std::size_t size() const { return ring_.size(); }
  /// The i-th newest, counted from 0; valid until the next on_decided(). Requires: i < size().
  [[nodiscard]] const DecisionRecord& newest(std::size_t i) const;

 private:
  struct Priced {
    double cost = 0;
    std::uint32_t position = 0;  // among the candidates
    // Among equal costs the one of the lower worker comes first, so that what is kept does not depend on the costlier
    // ones.
    friend auto operator<=>(const Priced&, const Priced&) = default;
  };
  [[nodiscard]] DecisionRecord& next_place();
  [[nodiscard]] DecisionRecord* find(std::uint64_t decision);
  void keep_candidates(const DecisionView& decision, DecisionRecord& record);
  void keep_best(const DecisionView& decision, std::size_t most, DecisionRecord& record);
  void keep_idle(std::span<const Candidate> all);

  Options options_;
  std::uint64_t total_ = 0;
  std::vector<DecisionRecord> ring_;  // decision n is at index (n - 1) % size
  std::vector<Priced> best_;          // scratch memory of keep_candidates()
};

}  // namespace kvist::routing
