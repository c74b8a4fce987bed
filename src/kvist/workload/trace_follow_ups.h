// Which request follows which in a trace that is being replayed, and what was said before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kvist/spec/trace_spec.h"
#include "kvist/text/chat.h"
#include "kvist/workload/trace.h"

namespace kvist::workload {

/// The requests of a trace that follow others, by the one they follow. Keeps messages and answer of a request that was
/// sent until all that follow it were sent. Memory: that of the conversations alive. Threads: one. Requires: the trace
/// outlives it.
class TraceFollowUps {
 public:
  TraceFollowUps(const Trace& trace, spec::TraceSessions sessions, std::uint32_t tokens_per_hash);

  /// The requests that follow no other, by instant.
  [[nodiscard]] const std::vector<std::uint32_t>& firsts() const { return firsts_; }
  /// The first request of the chain that the request is in; itself if it follows none.
  [[nodiscard]] std::uint32_t session_of(std::uint32_t place) const { return sessions_[place]; }
  void for_each_follower(std::uint32_t place, const std::function<void(std::uint32_t)>& call) const;

  /// What was said up to the answer that this request goes on from; null if it follows no request, if that one was not
  /// answered, if its answer is not in the prompt (FollowUp::has_answer), or if the prompt begins otherwise.
  struct Said {
    std::vector<text::ChatMessage> messages = {};
    std::string answer = {};
  };
  [[nodiscard]] const Said* said_before(std::uint32_t place) const;
  void on_sent(std::uint32_t place, const std::vector<text::ChatMessage>& messages);
  void on_answered(std::uint32_t place, std::string answer);

 private:
  struct Kept {
    Said said;
    bool answered = false;
    std::uint32_t followers = 0;  // that were not sent yet
  };
  [[nodiscard]] bool begins_with(const TraceRequest& request, const TraceRequest& earlier) const;

  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  const Trace* trace_;
  std::uint32_t tokens_per_hash_;
  std::vector<std::uint32_t> firsts_;
  std::vector<std::uint32_t> sessions_;
  std::vector<std::uint32_t> before_;          // by place; empty, as the next two, where no request follows another
  std::vector<std::uint32_t> first_follower_;  // the latest of them
  std::vector<std::uint32_t> next_follower_;   // of the same request
  std::unordered_map<std::uint32_t, Kept> kept_;
};

}  // namespace kvist::workload
