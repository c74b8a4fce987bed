#include "kvist/workload/conversation.h"

#include <utility>

#include "kvist/base/random.h"
#include "kvist/text/prose.h"

namespace kvist::workload {

Conversation::Conversation(const spec::WorkloadSpec& spec, const Dataset& dataset, std::uint64_t run_seed,
                           ConversationId id)
    : spec_(&spec), script_(dataset.script_of(id)), run_seed_(run_seed), id_(id) {
  if (script_ != nullptr) {
    turns_ = static_cast<std::uint32_t>(script_->turns.size());
    if (!script_->system.empty()) messages_.push_back({"system", script_->system});
    messages_.push_back({"user", script_->turns.front().message});
    return;
  }
  RandomStream random(mix_seed({run_seed, seed_part("conversation"), id.value()}));
  turns_ = static_cast<std::uint32_t>(random.uniform_int(spec.turns_min, spec.turns_max));
  messages_.reserve(2UL * turns_);
  const auto first_message = [&](const std::string& own) { return std::string(dataset.prefix_of(id)) + own; };
  if (dataset.size() == 0) {
    const std::int64_t bytes = random.uniform_int(spec.starter_tokens_min, spec.starter_tokens_max);
    messages_.push_back({"user", first_message(text::prose(random.next(), static_cast<std::size_t>(bytes)))});
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
  if (spec_->max_tokens_min == 0 || spec_->max_tokens_min == spec_->max_tokens) return spec_->max_tokens;
  RandomStream random(mix_seed({run_seed_, seed_part("answer tokens"), id_.value(), turn_}));
  return static_cast<std::uint32_t>(random.uniform_int(spec_->max_tokens_min, spec_->max_tokens));
}

bool Conversation::advance(std::string reply) {
  if (turn_ + 1 >= turns_) return false;
  ++turn_;
  messages_.push_back({"assistant", std::move(reply)});
  if (script_ != nullptr) {
    messages_.push_back({"user", script_->turns[turn_].message});
    return true;
  }
  RandomStream random(mix_seed({run_seed_, seed_part("follow-up"), id_.value(), turn_}));
  const std::int64_t bytes = random.uniform_int(spec_->follow_up_tokens_min, spec_->follow_up_tokens_max);
  messages_.push_back({"user", text::prose(random.next(), static_cast<std::size_t>(bytes))});
  return true;
}

}  // namespace kvist::workload
