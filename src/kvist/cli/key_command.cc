// kvist key create: a new API key.
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "kvist/cli/commands.h"
#include "kvist/cli/print.h"
#include "kvist/gateway/key_file.h"
#include "kvist/net/sha256.h"

namespace kvist::cli {

Result<void> create_key(const KeyCreateArguments& arguments) {
  // Each by itself: a name with a space would be read as words of the line, such as a weight.
  for (const auto& [option, text] :
       {std::pair("--name", std::string_view(arguments.name)), {"--class", arguments.key_class}}) {
    const std::string_view problem = gateway::key_name_problem(text);
    const bool is_left_out = text.empty() && option == std::string_view("--class");
    if (!problem.empty() && !is_left_out)
      return fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", option, problem));
  }
  const std::string key = gateway::make_key();
  const gateway::KeyRecord record{.name = arguments.name,
                                  .hash = net::sha256(key),
                                  .key_class = arguments.key_class,
                                  .limits = {.requests_per_minute = arguments.requests_per_minute,
                                             .tokens_per_minute = arguments.tokens_per_minute,
                                             .concurrency = arguments.concurrency}};
  const std::string line = gateway::to_line(record);
  // Whatever else the file's reader refuses is refused here in its words.
  KVIST_TRY_VOID(gateway::parse_key_file(line, "arguments"));
  print_line(key);
  print_line(line);
  return {};
}

}  // namespace kvist::cli
