// Renders chat templates for tests that compare them with other implementations of Jinja: reads lines of
//   {"template": "...", "input": {"messages": [...], ...}, "now": 1753531200}
// ("now" in seconds, may be absent) and writes for each one line {"text": "...", "from_messages": "..."} or
// {"error": "..."}; from_messages are the marked bytes.
#include <chrono>
#include <iostream>
#include <string>

#include "kvist/base/json_writer.h"
#include "kvist/jinja/json_value.h"
#include "kvist/jinja/template.h"

namespace {

namespace jinja = kvist::jinja;
using kvist::Result;

Result<jinja::MarkedText> render(const jinja::Dict& request) {
  KVIST_TRY(const jinja::Template compiled, jinja::Template::compile(request.find("template")->text()->bytes()));
  jinja::Template::Variables variables;
  for (const auto& [key, value] : request.find("input")->dict()->entries)
    variables.emplace_back(key.text()->bytes(), value);
  std::optional<std::chrono::local_seconds> now;
  if (const jinja::Value* seconds = request.find("now"))
    now = std::chrono::local_seconds(std::chrono::seconds(*seconds->as<std::int64_t>()));
  jinja::Meter meter{jinja::Limits()};
  return compiled.render(meter, variables, now);
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    jinja::Meter meter{jinja::Limits()};
    const Result<jinja::Value> request = jinja::value_of_json(meter, line, true);
    kvist::JsonWriter writer;
    writer.begin_object();
    if (!request) {
      writer.field("error", request.error().message);
    } else if (const Result<jinja::MarkedText> text = render(*request->dict()); !text) {
      writer.field("error", text.error().message);
    } else {
      std::string marked;
      for (const auto& [begin, end] : text->marks()) marked += text->bytes().substr(begin, end - begin);
      writer.field("text", text->bytes()).field("from_messages", marked);
    }
    std::cout << writer.end_object().take() << "\n";
  }
}
