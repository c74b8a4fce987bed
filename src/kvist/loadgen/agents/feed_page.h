// What happens in an agent's part of a load, on its way to a coordinator that somebody watches.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/workload/load_feed.h"
#include "kvist/workload/recorder.h"

namespace kvist::loadgen {

/// What happened since the page before. Instants are of the agent's clock.
struct FeedPage {
  std::uint64_t number = 0;  ///< from 1
  TimePoint until;           ///< what happened before is in this page and those before it
  workload::RecorderTotals totals = {};
  workload::LoadBatch batch = {};
};

/// As write_sample_page().
[[nodiscard]] std::string write_feed_page(const FeedPage& page);
/// Errors: kCorrupt for anything that write_feed_page() does not write.
[[nodiscard]] Result<FeedPage> read_feed_page(std::string_view bytes);

/// The page that the coordinator may not have yet. Threads: one. Memory: a page.
class FeedOutbox {
 public:
  using Make = std::function<FeedPage()>;

  /// The page after number `received`; `make` has all but its number. The same question gives the same page again.
  /// Errors: kInvalidArgument for a number that was never sent.
  [[nodiscard]] Result<std::string> page_after(std::uint64_t received, const Make& make);

 private:
  std::uint64_t number_ = 0;  // of page_
  std::string page_;
};

/// Of what one page has: half a second of many streams.
[[nodiscard]] workload::LoadFeedLimits feed_limits();

}  // namespace kvist::loadgen
