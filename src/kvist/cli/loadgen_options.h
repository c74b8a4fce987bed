// What `kvist loadgen` was asked for on its command line, as settings of the load generator. No I/O but of the files
// that are named.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/cli/commands.h"
#include "kvist/net/http_types.h"
#include "kvist/report/load_output.h"
#include "kvist/spec/workload.h"
#include "kvist/workload/load_input.h"
#include "kvist/workload/prompt_ids.h"

namespace kvist::cli {

struct LoadOrder {
  spec::WorkloadSpec workload;
  workload::LoadInput input;
  std::string dataset = "synthetic";
  std::string tokenizer_sha256;             ///< empty: a token is a byte, or so many characters
  std::string dataset_sha256;               ///< of the file that is sent; empty: none is
  std::optional<std::uint32_t> level = {};  ///< of the service's start(); nothing: it waits for the control API
  std::optional<Duration> duration = {};
  Duration warmup{};
  Duration progress{};
  net::Headers headers;
  std::optional<workload::PromptIds> prompt_ids = {};
  std::function<std::uint32_t(std::string_view)> count_tokens = {};  ///< by --tokenizer; null: there is none
  std::vector<report::ExportFormat> exports;
};

/// Errors name the option and what would be right.
[[nodiscard]] Result<LoadOrder> read_load_order(const LoadgenArguments& arguments);

/// "512", "100-900" or a law, as spec::parse_count() reads it; the error names the option.
[[nodiscard]] Result<spec::BoundedCount> parse_count(const std::string& text, const std::string& option,
                                                     std::uint32_t most = 1'000'000);
/// "2s" or "1s-5s".
[[nodiscard]] Result<workload::ThinkTime> parse_think_time(const std::string& text);
/// "0s:1,60s:4" as a profile.
[[nodiscard]] Result<std::vector<spec::ArrivalPoint>> parse_rate_profile(const std::string& text);

/// A command line for the record of a run. Values of headers and what follows a "?" in a path are left out, because
/// they may be secret.
[[nodiscard]] std::string command_text(int argc, const char* const* argv);

}  // namespace kvist::cli
