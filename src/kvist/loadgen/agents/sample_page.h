// Samples on their way from an agent to the coordinator: pages of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/loadgen/agents/page_bytes.h"
#include "kvist/workload/recorder.h"
#include "kvist/workload/turn_sample.h"

namespace kvist::loadgen {

/// Samples `first` to `first + samples.size() - 1` of a load, in the order in which the agent came to have them.
struct SamplePage {
  std::uint64_t first = 0;
  bool more = false;  ///< the agent has further ones now
  std::vector<workload::TurnSample> samples;
};

/// The format is private to agents of one version (kAgentProtocol): numbers in little-endian order, texts and lists
/// with their lengths before them.
[[nodiscard]] std::string write_sample_page(const SamplePage& page);
/// Errors: kCorrupt for anything that write_sample_page() does not write, with the place; instants are bounded
/// (kMostClockNs) and no list is longer than the bytes that follow it.
[[nodiscard]] Result<SamplePage> read_sample_page(std::string_view bytes);

/// One sample, as it is in such a page.
void write_turn_sample(PageWriter& out, const workload::TurnSample& sample);
[[nodiscard]] Result<workload::TurnSample> read_turn_sample(PageReader& in);

/// The samples that an agent has and the coordinator does not, bounded as a recorder's: beyond either bound new ones
/// are refused and counted. Threads: one.
class SampleOutbox {
 public:
  explicit SampleOutbox(workload::RecorderLimits limits = {}) : limits_(limits) {}

  void add(std::vector<workload::TurnSample> samples);
  /// The page after those that the coordinator has, `received` in number, which are forgotten. The same question gives
  /// the same page again. Errors: kInvalidArgument for a number that was never sent.
  [[nodiscard]] Result<std::string> page_after(std::uint64_t received);
  [[nodiscard]] std::uint64_t refused() const { return refused_; }
  [[nodiscard]] std::size_t waiting() const { return samples_.size(); }

  /// A page ends with the sample that reaches this size.
  static constexpr std::size_t kPageBytes = std::size_t{1} << 20;

 private:
  workload::RecorderLimits limits_;
  std::uint64_t first_ = 0;          // number of samples_.front()
  std::deque<std::string> samples_;  // each as it is written
  std::size_t bytes_ = 0;
  std::uint64_t refused_ = 0;
};

}  // namespace kvist::loadgen
