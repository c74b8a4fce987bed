// Functions that the rendering program provides.
#include <gtest/gtest.h>

#include "kvist/jinja/template.h"

namespace kvist::jinja::host_function_test {
namespace {

std::string rendered(std::string_view source) {
  const HostFunction twice{"twice", [](std::span<const Value> arguments) -> Result<Value> {
                             if (arguments.size() != 1 || arguments[0].as<std::int64_t>() == nullptr) {
                               return fail(ErrorCode::kInvalidArgument, "twice takes one integer");
                             }
                             return Value(*arguments[0].as<std::int64_t>() * 2);
                           }};
  const std::vector<std::string> names = {"twice"};
  Result<Template> compiled = Template::compile(source, names);
  if (!compiled) return compiled.error().message;
  Meter meter{Limits{}};
  const Result<MarkedText> text =
      compiled->render(meter, {{"twice", Callable{.macro = nullptr, .function = nullptr, .host = &twice}}});
  return text ? std::string(text->bytes()) : text.error().message;
}

TEST(HostFunctions, AreCalledByNameWithTheirArguments) {
  EXPECT_EQ(rendered("{{ twice(4) + 1 }}"), "9");
  EXPECT_EQ(rendered("{% for i in [1, 2] %}{{ twice(twice(i)) }} {% endfor %}"), "4 8 ");
}

TEST(HostFunctions, ErrorsHaveTheirPlace) {
  EXPECT_EQ(rendered("{{ 1 +\n twice('a') }}"), "line 2, column 2: twice takes one integer");
  EXPECT_EQ(rendered("{{ twice(a=1) }}"), "line 1, column 4: twice takes its arguments by position");
  EXPECT_EQ(rendered("{{ thrice(1) }}").substr(0, 41), "line 1, column 4: unknown function 'thric");
}

}  // namespace
}  // namespace kvist::jinja::host_function_test
