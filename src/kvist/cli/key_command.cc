// kvist key create: a new API key.
#include "kvist/cli/commands.h"
#include "kvist/cli/print.h"
#include "kvist/gateway/key_file.h"
#include "kvist/net/sha256.h"

namespace kvist::cli {

Result<void> create_key(const KeyCreateArguments& arguments) {
  const std::string key = gateway::make_key();
  const gateway::KeyRecord record{.name = arguments.name,
                                  .hash = net::sha256(key),
                                  .key_class = arguments.key_class,
                                  .limits = {.requests_per_minute = arguments.requests_per_minute,
                                             .tokens_per_minute = arguments.tokens_per_minute,
                                             .concurrency = arguments.concurrency}};
  const std::string line = gateway::to_line(record);
  // Whatever the file's reader refuses, a name with a space for instance, is refused here in its words.
  KVIST_TRY_VOID(gateway::parse_key_file(line, "arguments"));
  print_line(key);
  print_line(line);
  return {};
}

}  // namespace kvist::cli
