// A copy of a collection: lists, watches, and all that can end them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kubernetes/objects_sample.h"
#include "kvist/kubernetes/informer.h"
#include "kvist/kubernetes/worker_mapping.h"

namespace kvist::kubernetes::informer_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = ListWatch::Action::Kind;

using Slices = Informer<EndpointSlice>;

Slices slices(std::uint64_t seed = 1) {
  return {read_endpoint_slice, seed};
}

TimePoint at(Duration since_start) {
  return TimePoint() + seconds(100) + since_start;
}

const ApiError kGone{.kind = ApiErrorKind::kUnreachable, .message = "connection refused"};

/// Polls until something is to be done. Returns when, and what.
std::pair<TimePoint, ListWatch::Action> next_action(Slices& informer, TimePoint now) {
  ListWatch::Action action = informer.poll(now);
  while (action.kind == Kind::kNone) {
    const auto next = informer.protocol().next_wakeup();
    EXPECT_TRUE(next.has_value()) << "nothing would ever happen";
    if (!next) return {now, action};
    now = std::max(now, *next);
    action = informer.poll(now);
  }
  return {now, action};
}

TEST(InformerTest, ListsInPagesAndThenWatchesFromTheListsVersion) {
  Slices informer = slices();
  EXPECT_EQ(informer.poll(at({})).kind, Kind::kList);
  EXPECT_EQ(informer.poll(at({})).kind, Kind::kNone) << "one call at a time";
  informer.on_page(sample_page({sample_slice("a", 1, {{"p-0", "10.0.0.1"}})}, 7, "more"), at({}));
  EXPECT_FALSE(informer.protocol().synced());
  EXPECT_THAT(informer.objects(), IsEmpty()) << "a part of a list is not the state";
  const ListWatch::Action second = informer.poll(at({}));
  EXPECT_EQ(second.kind, Kind::kList);
  EXPECT_EQ(second.continue_token, "more");
  informer.on_page(sample_page({sample_slice("b", 2, {{"p-1", "10.0.0.2"}})}, 7), at({}));
  EXPECT_TRUE(informer.protocol().synced());
  EXPECT_EQ(informer.objects().size(), 2U);
  const ListWatch::Action watch = informer.poll(at({}));
  EXPECT_EQ(watch.kind, Kind::kWatch);
  EXPECT_EQ(watch.resource_version, "7");
}

/// Listed at version 7, with slice "a", and watched.
Slices watched(std::uint64_t seed = 1) {
  Slices informer = slices(seed);
  EXPECT_EQ(informer.poll(at({})).kind, Kind::kList);
  informer.on_page(sample_page({sample_slice("a", 1, {{"p-0", "10.0.0.1"}})}, 7), at({}));
  EXPECT_EQ(informer.poll(at({})).kind, Kind::kWatch);
  informer.on_watch_open(at({}));
  return informer;
}

TEST(InformerTest, AnEmptyListIsAFleetOfNone) {
  Slices informer = slices(1);
  EXPECT_EQ(informer.poll(at({})).kind, Kind::kList);
  informer.on_page(sample_page({}, 7), at({}));
  EXPECT_TRUE(informer.protocol().synced());
  EXPECT_TRUE(informer.objects().empty());
  EXPECT_EQ(informer.poll(at({})).resource_version, "7");
}

TEST(InformerTest, TakesEventsAndCountsChangesOnly) {
  Slices informer = watched();
  const std::uint64_t before = informer.changes();
  EXPECT_TRUE(informer.on_line(sample_event("ADDED", sample_slice("b", 8, {{"p-1", "10.0.0.2"}})), at({})));
  EXPECT_TRUE(informer.on_line(sample_event("MODIFIED", sample_slice("b", 9, {{"p-1", "10.0.0.3"}})), at({})));
  EXPECT_EQ(informer.changes(), before + 2);
  EXPECT_TRUE(informer.on_line(sample_event("MODIFIED", sample_slice("b", 10, {{"p-1", "10.0.0.3"}})), at({})));
  EXPECT_EQ(informer.changes(), before + 2) << "another version of the same";
  EXPECT_EQ(informer.objects().at("ns/b").endpoints.front().address, "10.0.0.3");
  EXPECT_TRUE(informer.on_line(sample_event("DELETED", sample_slice("a", 11, {})), at({})));
  EXPECT_EQ(informer.objects().count("ns/a"), 0U);
  EXPECT_EQ(informer.changes(), before + 3);
}

TEST(InformerTest, ResumesFromTheLastBookmark) {
  Slices informer = watched();
  EXPECT_TRUE(informer.on_line(sample_bookmark(42), at(seconds(60))));
  informer.on_watch_end(at(seconds(300)));
  EXPECT_FALSE(informer.protocol().stale_since()) << "an end in order loses nothing";
  const ListWatch::Action again = informer.poll(at(seconds(300)));
  EXPECT_EQ(again.kind, Kind::kWatch);
  EXPECT_EQ(again.resource_version, "42");
}

TEST(InformerTest, ListsAgainWhenTheVersionIsTooOldAndForgetsWhatIsGone) {
  for (const bool within : {true, false}) {
    Slices informer = watched();
    if (within) {
      EXPECT_FALSE(informer.on_line(kExpiredEvent, at(seconds(1))));
    } else {
      informer.on_failed({.kind = ApiErrorKind::kExpired, .status = 410, .message = "Gone"}, at(seconds(1)));
    }
    EXPECT_EQ(informer.protocol().counters().expired, 1U);
    EXPECT_EQ(informer.protocol().stale_since(), at(seconds(1)));
    const auto [when, action] = next_action(informer, at(seconds(1)));
    EXPECT_EQ(action.kind, Kind::kList);
    EXPECT_GE(when, at(seconds(1) + ListWatch::kFirstDelay / 2)) << "after a delay";
    EXPECT_EQ(informer.objects().size(), 1U) << "until then all stays";
    informer.on_page(sample_page({sample_slice("c", 50, {})}, 60), when);
    EXPECT_EQ(informer.objects().count("ns/a"), 0U);
    EXPECT_EQ(informer.objects().count("ns/c"), 1U);
  }
}

TEST(InformerTest, KeepsItsStateWhileTheServerIsGoneAndSaysSo) {
  Slices informer = watched();
  TimePoint now = at(seconds(10));
  informer.on_failed(kGone, now);
  Duration longest{};
  for (int i = 0; i < 20; ++i) {
    const auto [when, action] = next_action(informer, now);
    EXPECT_EQ(action.kind, Kind::kWatch);
    EXPECT_EQ(action.resource_version, "7") << "nothing was missed yet, as far as it knows";
    longest = std::max(longest, when - now);
    now = when;
    informer.on_failed(kGone, now);
  }
  EXPECT_LE(longest, ListWatch::kMostDelay);
  EXPECT_GT(longest, ListWatch::kMostDelay / 2);
  EXPECT_EQ(informer.protocol().stale_since(), at(seconds(10)));
  EXPECT_THAT(informer.protocol().problem(), HasSubstr("connection refused"));
  EXPECT_EQ(informer.objects().size(), 1U);
  const auto [when, action] = next_action(informer, now);
  informer.on_watch_open(when);
  EXPECT_FALSE(informer.protocol().stale_since());
  EXPECT_THAT(informer.protocol().problem(), IsEmpty());
}

TEST(InformerTest, ListsSoonAfterAnOutageThatItsVersionDidNotOutlive) {
  Slices informer = slices();
  (void)informer.poll(at({}));
  informer.on_page(sample_page({}, 7), at({}));
  TimePoint now = at({});
  for (int i = 0; i < 20; ++i) {
    now = next_action(informer, now).first;
    informer.on_failed(kGone, now);
  }
  now = next_action(informer, now).first;
  // The first refusal is answered at once; those of a server that calls every list too old, less and less.
  Duration longest{};
  for (int i = 0; i < 10; ++i) {
    informer.on_failed({.kind = ApiErrorKind::kExpired, .status = 410}, now);
    const auto [listed, action] = next_action(informer, now);
    EXPECT_EQ(action.kind, Kind::kList);
    if (i == 0) {
      EXPECT_LE(listed - now, ListWatch::kFirstDelay);
    }
    longest = std::max(longest, listed - now);
    informer.on_page(sample_page({}, 8 + i), listed);
    now = next_action(informer, listed).first;
  }
  EXPECT_GT(longest, ListWatch::kMostDelay / 2);
}

TEST(InformerTest, WaitsAsLongAsTheServerSays) {
  Slices informer = slices();
  EXPECT_EQ(informer.poll(at({})).kind, Kind::kList);
  informer.on_failed({.kind = ApiErrorKind::kThrottled, .status = 429, .retry_after = seconds(7)}, at({}));
  EXPECT_EQ(informer.poll(at(milliseconds(6'999))).kind, Kind::kNone);
  EXPECT_EQ(informer.poll(at(seconds(7))).kind, Kind::kList);
  EXPECT_FALSE(informer.protocol().stale_since()) << "there is no state yet that could be stale";
}

TEST(InformerTest, TakesASilentWatchToBeBroken) {
  Slices informer = watched();
  EXPECT_TRUE(informer.on_line(sample_bookmark(8), at(seconds(60))));
  EXPECT_EQ(informer.protocol().next_wakeup(), at(seconds(60) + ListWatch::kMostSilence));
  EXPECT_EQ(informer.poll(at(seconds(60) + ListWatch::kMostSilence)).kind, Kind::kNone);
  EXPECT_TRUE(informer.protocol().stale_since());
  EXPECT_FALSE(informer.protocol().has_call());
}

TEST(InformerTest, TakesAWatchWithoutAnAnswerToBeBroken) {
  Slices informer = watched();
  informer.on_watch_end(at(seconds(300)));
  EXPECT_EQ(informer.poll(at(seconds(300))).kind, Kind::kWatch);
  EXPECT_FALSE(informer.protocol().stale_since());
  EXPECT_EQ(informer.protocol().next_wakeup(), at(seconds(300) + ListWatch::kMostOpening));
  EXPECT_EQ(informer.poll(at(seconds(300) + ListWatch::kMostOpening)).kind, Kind::kNone);
  EXPECT_EQ(informer.protocol().stale_since(), at(seconds(300) + ListWatch::kMostOpening));
  EXPECT_FALSE(informer.protocol().has_call());
}

TEST(InformerTest, DoesNotAskWithoutAPauseAServerThatEndsEachWatch) {
  Slices informer = watched();
  TimePoint now = at({});
  for (int i = 0; i < 10; ++i) {
    informer.on_watch_end(now);
    const auto [when, action] = next_action(informer, now);
    EXPECT_EQ(action.kind, Kind::kWatch);
    EXPECT_GE(when - now, ListWatch::kFirstDelay / 2);
    now = when;
    informer.on_watch_open(now);
  }
}

TEST(InformerTest, VariesItsDelays) {
  std::vector<TimePoint> first;
  for (std::uint64_t seed = 1; seed <= 31; seed += 2) {
    Slices informer = watched(seed);
    informer.on_failed(kGone, at({}));
    first.push_back(*informer.protocol().next_wakeup());
    EXPECT_GE(first.back(), at(ListWatch::kFirstDelay / 2));
    EXPECT_LE(first.back(), at(ListWatch::kFirstDelay));
  }
  std::ranges::sort(first);
  EXPECT_EQ(std::ranges::unique(first).size(), 0U);
}

TEST(InformerTest, LeavesOutObjectsThatItCannotRead) {
  Slices informer = watched();
  const std::string broken = R"({"metadata":{"name":"a","namespace":"ns","resourceVersion":"9"},"endpoints":[]})";
  EXPECT_TRUE(informer.on_line(sample_event("MODIFIED", broken), at({})));
  EXPECT_EQ(informer.unreadable(), 1U);
  EXPECT_THAT(informer.unreadable_problem(), HasSubstr("addressType"));
  EXPECT_THAT(informer.objects(), IsEmpty()) << "what it was is known to be wrong";
  EXPECT_FALSE(informer.on_line("{", at({}))) << "a broken line ends the watch";
  EXPECT_TRUE(informer.protocol().stale_since());
}

/// A server with a collection of slices and a history, of which it forgets the beginning.
class FakeServer {
 public:
  explicit FakeServer(std::mt19937_64& random) : random_(&random) {}

  void change() {
    const std::string name = "slice-" + std::to_string(pick(4));
    const bool exists = slices_.contains(name);
    ++version_;
    if (exists && pick(3) == 0) {
      log_.emplace_back(version_, sample_event("DELETED", sample_slice(name, version_, {})));
      slices_.erase(name);
      return;
    }
    std::vector<SampleEndpoint> endpoints;
    for (std::size_t pod = 0; pod < pick(6); ++pod) {
      const std::size_t number = pick(12);
      endpoints.push_back({.pod = "pod-" + std::to_string(number),
                           .address = "10.0.0." + std::to_string(number),
                           .ready = pick(4) != 0,
                           .terminating = pick(5) == 0});
    }
    slices_[name] = sample_slice(name, version_, endpoints);
    log_.emplace_back(version_, sample_event(exists ? "MODIFIED" : "ADDED", slices_[name]));
  }
  void forget_history() { oldest_ = version_; }

  [[nodiscard]] std::string list() const {
    std::vector<std::string> items;
    for (const auto& [name, slice] : slices_) items.push_back(slice);
    return sample_page(items, version_);
  }
  [[nodiscard]] bool knows(int version) const { return version >= oldest_; }
  [[nodiscard]] std::vector<std::string> since(int version) const {
    std::vector<std::string> lines;
    for (const auto& [of, line] : log_)
      if (of > version) lines.push_back(line);
    return lines;
  }
  [[nodiscard]] int version() const { return version_; }
  std::size_t pick(std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(*random_); }

 private:
  std::mt19937_64* random_;
  int version_ = 1;
  int oldest_ = 1;
  std::map<std::string, std::string> slices_;
  std::vector<std::pair<int, std::string>> log_;
};

/// Whatever is asked is answered, refused or broken off, by chance.
void answer(Slices& informer, FakeServer& server, const ListWatch::Action& action, TimePoint now) {
  if (server.pick(5) == 0) return informer.on_failed(kGone, now);
  if (action.kind == Kind::kList) return informer.on_page(server.list(), now);
  const int from = std::stoi(action.resource_version);
  if (!server.knows(from)) {
    if (server.pick(2) == 0) return informer.on_failed({.kind = ApiErrorKind::kExpired, .status = 410}, now);
    informer.on_watch_open(now);
    EXPECT_FALSE(informer.on_line(kExpiredEvent, now));
    return;
  }
  informer.on_watch_open(now);
  for (const std::string& line : server.since(from)) {
    if (server.pick(10) == 0) return informer.on_failed(kGone, now);
    EXPECT_TRUE(informer.on_line(line, now));
  }
  if (server.pick(2) == 0) {
    EXPECT_TRUE(informer.on_line(sample_bookmark(server.version()), now));
  }
  informer.on_watch_end(now + seconds(1));
}

TEST(InformerPropertyTest, AnyHistoryEndsInTheFleetOfAFreshList) {
  const WorkerSelection selection{.group = "g", .model = "m"};
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    FakeServer server(random);
    Slices informer = slices(seed);
    TimePoint now = at({});
    for (int step = 0; step < 60; ++step) {
      for (std::size_t i = server.pick(4); i > 0; --i) server.change();
      if (server.pick(6) == 0) server.forget_history();
      const auto [when, action] = next_action(informer, now);
      answer(informer, server, action, when);
      now = when + seconds(1);
    }
    // Nothing changes any more: the copy catches up.
    for (int step = 0; step < 40; ++step) {
      const auto [when, action] = next_action(informer, now);
      answer(informer, server, action, when);
      now = when + seconds(1);
      if (informer.protocol().synced() && !informer.protocol().stale_since()) break;
    }
    ASSERT_FALSE(informer.protocol().stale_since());
    Slices fresh = slices();
    EXPECT_EQ(fresh.poll(at({})).kind, Kind::kList);
    fresh.on_page(server.list(), at({}));
    EXPECT_EQ(informer.objects(), fresh.objects());
    EXPECT_EQ(workers_of(informer.objects(), {}, selection), workers_of(fresh.objects(), {}, selection));
  }
}

}  // namespace
}  // namespace kvist::kubernetes::informer_test
