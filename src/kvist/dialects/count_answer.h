// The answer of Anthropic's count_tokens from that of a worker's /tokenize. Private to the module.
#pragma once

#include <string>
#include <string_view>

#include "kvist/dialects/dialect.h"

namespace kvist::dialects {

/// Never streams. Threads: one.
class CountAnswer final : public AnswerTranslator {
 public:
  [[nodiscard]] Result<std::string> whole(std::string_view answer) override;
  [[nodiscard]] Result<void> on_event(std::string_view data, std::string& out) override;
  void end(std::string& /*out*/) override {}
  void on_error(std::string_view message, std::string& out) override;
};

}  // namespace kvist::dialects
