#include "kvist/workload/conversation.h"

#include <iterator>
#include <utility>

#include "kvist/base/random.h"
#include "kvist/workload/drawn_count.h"

namespace kvist::workload {

Conversation::Conversation(const spec::WorkloadSpec& spec, const Dataset& dataset, std::uint64_t run_seed,
                           ConversationId id)
    : spec_(&spec), dataset_(&dataset), script_(dataset.script_of(id)), run_seed_(run_seed), id_(id) {
  if (script_ != nullptr) {
    turns_ = static_cast<std::uint32_t>(script_->turns.size());
    if (!script_->system.empty()) messages_.push_back({"system", script_->system});
    messages_.push_back({"user", script_->turns.front().message});
    return;
  }
  RandomStream random(mix_seed({run_seed, seed_part("conversation"), id.value()}));
  turns_ = draw(spec.turns(), random);
  messages_.reserve(2UL * turns_);
  const auto first_message = [&](const std::string& own) { return std::string(dataset.prefix_of(id)) + own; };
  if (dataset.size() == 0) {
    const std::uint32_t tokens = draw(spec.starter_tokens(), random);
    const bool behind = !dataset.prefix_of(id).empty();
    messages_.push_back({"user", first_message(dataset.text_of(random.next(), tokens,
                                                               behind ? text::TokenProse::Begins::kBehindOne
                                                                      : text::TokenProse::Begins::kAText))});
    return;
  }
  const auto starter = random.uniform_int(0, static_cast<std::int64_t>(dataset.size()) - 1);
  messages_.push_back({"user", first_message(dataset.starter(static_cast<std::size_t>(starter)))});
}

std::uint64_t Conversation::answer_seed() const {
  return mix_seed({run_seed_, seed_part("answer"), id_.value(), turn_}) >> 11;
}

std::uint32_t Conversation::max_tokens() const {
  if (script_ != nullptr && script_->turns[turn_].max_tokens > 0) return script_->turns[turn_].max_tokens;
  RandomStream random(mix_seed({run_seed_, seed_part("answer tokens"), id_.value(), turn_}));
  return draw(spec_->answer_tokens(), random);
}

std::string Conversation::recorded_reply() const {
  if (script_ != nullptr) return script_->turns[turn_].reply;
  return dataset_->text_of(mix_seed({run_seed_, seed_part("reply"), id_.value(), turn_}), max_tokens());
}

bool Conversation::advance(std::string reply) {
  if (turn_ + 1 >= turns_) return false;
  if (spec_->replies == spec::Replies::kRecorded) {
    // What a data set does not have stays as it was answered.
    if (std::string recorded = recorded_reply(); !recorded.empty()) reply = std::move(recorded);
  }
  ++turn_;
  messages_.push_back({"assistant", std::move(reply)});
  if (script_ != nullptr) {
    messages_.push_back({"user", script_->turns[turn_].message});
    return true;
  }
  RandomStream random(mix_seed({run_seed_, seed_part("follow-up"), id_.value(), turn_}));
  if (!spec_->follow_ups.empty()) {
    const auto place = random.uniform_int(0, std::ssize(spec_->follow_ups) - 1);
    messages_.push_back({"user", spec_->follow_ups[static_cast<std::size_t>(place)]});
    return true;
  }
  const std::uint32_t tokens = draw(spec_->follow_up_tokens(), random);
  messages_.push_back({"user", dataset_->text_of(random.next(), tokens)});
  return true;
}

}  // namespace kvist::workload
