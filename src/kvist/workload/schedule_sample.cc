#include "kvist/workload/schedule_sample.h"

#include <fmt/format.h>

#include <iterator>
#include <limits>

#include "kvist/workload/conversation.h"
#include "kvist/workload/open_arrivals.h"

namespace kvist::workload {
namespace {

constexpr std::uint64_t kConversations = 64;
constexpr std::uint64_t kArrivals = 2'000;

void add_conversation(const Conversation& conversation, const ThinkTime& think, std::uint64_t seed, std::string& out) {
  fmt::format_to(std::back_inserter(out), "{} {} {} {} {} {}\n", conversation.id().value(), conversation.turns(),
                 conversation.max_tokens(), conversation.answer_seed(), conversation.ignore_eos(),
                 think.is_none() ? 0 : think.before(seed, conversation.id(), 1).count());
  for (const text::ChatMessage& message : conversation.messages()) out += message.content + "\n";
}

void add_arrivals(spec::ArrivalSpec arrivals, double rate, std::uint64_t seed, std::string& out) {
  arrivals.max_conversations = std::numeric_limits<std::uint32_t>::max();
  OpenArrivals open(arrivals, rate, seed, TimePoint{});
  for (std::uint64_t i = 0; i < kArrivals; ++i) {
    const auto next = open.next_start();
    if (!next) break;
    (void)open.try_start(*next);
    fmt::format_to(std::back_inserter(out), "{}\n", next->time_since_epoch().count());
  }
}

}  // namespace

std::string schedule_sample(const spec::WorkloadSpec& spec, const LoadInput& input, const LoadTexts& texts,
                            std::uint32_t level, std::uint64_t seed) {
  std::string out = fmt::format("level {} seed {}\n{}\n", level, seed, spec::to_yaml(spec));
  for (std::uint64_t i = 0; i < kConversations; ++i) {
    const ConversationId id(i);
    const Mix::Part& part = texts->part_of(id);
    add_conversation(Conversation(part.spec, part.dataset, seed, id), input.think_time, seed, out);
  }
  if (spec.arrivals.is_open()) add_arrivals(spec.arrivals, spec.arrivals.starts_per_second(level), seed, out);
  return out;
}

}  // namespace kvist::workload
