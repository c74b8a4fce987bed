// Parts of a chat completion's body, as they are written. Private to the module.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/json.h"
#include "kvist/base/json_writer.h"

namespace kvist::dialects {

/// The content of a message. One text is written as a string, which every template takes; anything else as parts.
class ContentParts {
 public:
  void add_text(std::string_view text);
  /// An image by its address, which may be a data: URL.
  void add_image(std::string_view url);
  /// Adds each image, and from then on there is none.
  void add_images(std::vector<std::string>& urls);
  [[nodiscard]] bool empty() const { return parts_.empty(); }
  /// All of it as one value, and from then on there is none. Nothing is written as "".
  void write(JsonWriter& json);

 private:
  std::vector<std::string> parts_;  // as JSON
  std::string only_text_;           // of the first part
  bool is_one_text_ = false;
};

/// One message of the assistant: what it thought, said and called.
class AssistantTurn {
 public:
  ContentParts& content() { return content_; }
  void add_reasoning(std::string_view text) { reasoning_ += text; }
  void add_call(std::string_view id, std::string_view name, std::string_view arguments);
  [[nodiscard]] bool empty() const { return content_.empty() && reasoning_.empty() && calls_.empty(); }
  /// Writes the message, and from then on there is none.
  void write(JsonWriter& json);

 private:
  ContentParts content_;
  std::string reasoning_;
  std::vector<std::string> calls_;  // as JSON
};

/// {"role","content"}; the content is empty afterwards.
void write_message(JsonWriter& json, std::string_view role, ContentParts& content);
/// {"role":"tool","tool_call_id","content"}
void write_tool_result(JsonWriter& json, std::string_view call_id, ContentParts& content);
/// {"type":"function","function":{...}}; what is empty is left out, except for the name. `parameters` and `strict` are
/// JSON.
void write_function(JsonWriter& json, std::string_view name, std::string_view description, std::string_view parameters,
                    std::string_view strict);
/// "tools", each written by `write_tool`; nothing if there are none.
[[nodiscard]] Result<void> write_tools(const JsonObject& request, JsonWriter& json,
                                       Result<void> (*write_tool)(const JsonObject& tool, JsonWriter& json));
/// Whether there are tools to choose from. vLLM and OpenAI refuse a choice without any, even "auto", which clients of
/// the other APIs give all the same.
[[nodiscard]] bool has_tools(const JsonObject& request);
/// "tool_choice": the function of that name.
void write_named_choice(JsonWriter& json, std::string_view name);
/// The fields that chat completions have under the same name, and extensions of vLLM that neither API knows, so that a
/// client can give them all the same: each with its value as it came, if it is there.
void copy_shared_fields(const JsonObject& request, JsonWriter& json);
/// "stream", and with it the request for usage.
Result<void> write_stream(const JsonObject& request, JsonWriter& json);
/// Refuses a field that is there and neither null nor empty.
[[nodiscard]] Result<void> refuse(const JsonObject& request, std::string_view field, std::string_view why);

}  // namespace kvist::dialects
