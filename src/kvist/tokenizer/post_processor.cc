#include "kvist/tokenizer/post_processor.h"

#include <fmt/format.h>

#include <map>
#include <string>

#include "kvist/base/json.h"
#include "kvist/tokenizer/limits.h"
#include "kvist/tokenizer/steps.h"

namespace kvist::tokenizer {
namespace {

constexpr std::size_t kMostPieces = 64;

using Specials = std::map<std::string_view, std::vector<TokenId>>;

Result<Specials> read_specials(JsonObject& step) {
  Specials specials;
  KVIST_TRY(const auto value, step.find("special_tokens"));
  if (!value) return specials;
  KVIST_TRY(const JsonObject object, value->as_object());
  for (const auto [name, at] : object) {
    KVIST_TRY(const JsonObject special, at.as_object());
    special.ignore({"id", "tokens"});
    KVIST_TRY(const JsonValue ids_at, special.require("ids"));
    KVIST_TRY_VOID(special.finish());
    KVIST_TRY(const JsonArray ids, ids_at.as_array());
    std::vector<TokenId>& tokens = specials[name];
    for (const JsonValue element : ids) {
      if (tokens.size() == kMostPieces) return ids_at.unsupported(fmt::format("more than {} tokens", kMostPieces));
      KVIST_TRY(const TokenId id, read_token_id(element));
      tokens.push_back(id);
    }
  }
  return specials;
}

/// One element of a template: the text ("Sequence" "A"), or a special token.
Result<void> read_piece(const JsonValue& at, const Specials& specials, bool& text_seen, PostProcessor& result) {
  KVIST_TRY(JsonObject piece, at.as_object());
  KVIST_TRY(const auto special, piece.find("SpecialToken"));
  KVIST_TRY(const auto sequence, piece.find("Sequence"));
  KVIST_TRY_VOID(piece.finish());
  if (special.has_value() == sequence.has_value()) return at.wrong("either SpecialToken or Sequence is needed");
  const JsonValue& value = special ? *special : *sequence;
  KVIST_TRY(JsonObject object, value.as_object());
  object.ignore({"type_id"});
  KVIST_TRY(const JsonValue id_at, object.require("id"));
  KVIST_TRY(const std::string_view id, id_at.as_string());
  KVIST_TRY_VOID(object.finish());
  if (sequence) {
    if (id != "A" || text_seen) return id_at.unsupported("a template for one text has it once, under the name A");
    text_seen = true;
    return {};
  }
  const auto tokens = specials.find(id);
  if (tokens == specials.end()) return id_at.wrong(fmt::format("{} is not in special_tokens", in_quotes(id)));
  std::vector<TokenId>& side = text_seen ? result.behind : result.before;
  side.insert(side.end(), tokens->second.begin(), tokens->second.end());
  return {};
}

Result<PostProcessor> read_template(JsonObject& step) {
  step.ignore({"pair"});
  KVIST_TRY(const Specials specials, read_specials(step));
  KVIST_TRY(const JsonValue single, step.require("single"));
  KVIST_TRY(const JsonArray pieces, single.as_array());
  PostProcessor result;
  bool text_seen = false;
  std::size_t count = 0;
  for (const JsonValue element : pieces) {
    if (count == kMostPieces) return single.unsupported(fmt::format("more than {} pieces", kMostPieces));
    ++count;
    KVIST_TRY_VOID(read_piece(element, specials, text_seen, result));
  }
  if (!text_seen) return single.wrong("a template without the text itself");
  return result;
}

}  // namespace

Result<PostProcessor> PostProcessor::read(const JsonValue& value) {
  PostProcessor all;
  KVIST_TRY_VOID(for_each_step(
      value, "processors", [&](std::string_view type, JsonObject& step, const JsonValue& at) -> Result<void> {
        if (type == "ByteLevel") {
          step.ignore({"add_prefix_space", "trim_offsets", "use_regex"});  // these only concern offsets
          return {};
        }
        if (type != "TemplateProcessing") {
          return at.unsupported(fmt::format("post-processors of type {} are not supported", in_quotes(type)));
        }
        KVIST_TRY(const PostProcessor step_result, read_template(step));
        // Each step wraps the result of the steps before it.
        all.before.insert(all.before.begin(), step_result.before.begin(), step_result.before.end());
        all.behind.insert(all.behind.end(), step_result.behind.begin(), step_result.behind.end());
        return {};
      }));
  return all;
}

}  // namespace kvist::tokenizer
