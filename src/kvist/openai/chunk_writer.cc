#include "kvist/openai/chunk_writer.h"

#include <fmt/format.h>

#include <iterator>

#include "kvist/base/check.h"
#include "kvist/base/json_writer.h"
#include "kvist/openai/logprobs_text.h"
#include "kvist/openai/tokens_json.h"
#include "kvist/openai/usage_json.h"

namespace kvist::openai {
namespace {

constexpr std::string_view kEndOfChoice = "}]}";

}  // namespace

ChunkWriter::ChunkWriter(const AnswerHead& head) : chat_(head.chat) {
  JsonWriter json;
  json.begin_object().field("id", head.id);
  json.field("object", head.chat ? "chat.completion.chunk" : "text_completion");
  json.field("created", head.created).field("model", head.model).key("choices").begin_array();
  json.end_array().end_object();
  head_ = json.take();
  head_.resize(head_.size() - 2);  // without "]}": the choices follow
}

void ChunkWriter::open_choice(std::string& out, std::uint32_t index) const {
  out += head_;
  fmt::format_to(std::back_inserter(out), R"({{"index":{},)", index);
}

void ChunkWriter::append_role(std::string& out, std::uint32_t index) const {
  KVIST_CHECK(chat_, "only chat answers begin with a role");
  open_choice(out, index);
  out += R"("delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]})";
}

void ChunkWriter::append_text(std::string& out, std::uint32_t index, std::string_view text) const {
  open_choice(out, index);
  out += chat_ ? R"("delta":{"content":)" : R"("text":)";
  append_json_string(out, text);
  out += chat_ ? R"(},"logprobs":null,"finish_reason":null}]})" : R"(,"logprobs":null,"finish_reason":null}]})";
}

void ChunkWriter::append_text(std::string& out, std::uint32_t index, std::string_view text,
                              std::span<const TokenLogprobs> logprobs, std::size_t text_offset) const {
  open_choice(out, index);
  out += chat_ ? R"("delta":{"content":)" : R"("text":)";
  append_json_string(out, text);
  out += chat_ ? R"(},"logprobs":)" : R"(,"logprobs":)";
  LogprobsText(chat_, logprobs, text_offset).append_to(out);
  out += R"(,"finish_reason":null}]})";
}

void ChunkWriter::append_call(std::string& out, std::uint32_t index, std::size_t call,
                              const text::ToolCall& begun) const {
  KVIST_CHECK(chat_, "only chat answers call tools");
  open_choice(out, index);
  fmt::format_to(std::back_inserter(out), R"("delta":{{"tool_calls":[{{"index":{},"id":)", call);
  append_json_string(out, begun.id);
  out += R"(,"type":"function","function":{"name":)";
  append_json_string(out, begun.name);
  out += R"(,"arguments":""}}]},"logprobs":null,"finish_reason":null}]})";
}

void ChunkWriter::append_arguments(std::string& out, std::uint32_t index, std::size_t call,
                                   std::string_view part) const {
  KVIST_CHECK(chat_, "only chat answers call tools");
  open_choice(out, index);
  fmt::format_to(std::back_inserter(out), R"("delta":{{"tool_calls":[{{"index":{},"function":{{"arguments":)", call);
  append_json_string(out, part);
  out += R"(}}]},"logprobs":null,"finish_reason":null}]})";
}

void ChunkWriter::append_finish(std::string& out, std::uint32_t index, std::string_view finish_reason,
                                std::string_view stop) const {
  open_choice(out, index);
  out += chat_ ? R"("delta":{},"logprobs":null,"finish_reason":)" : R"("text":"","logprobs":null,"finish_reason":)";
  append_json_string(out, finish_reason);
  if (!stop.empty()) {
    out += R"(,"stop_reason":)";
    append_json_string(out, stop);
  }
  out += kEndOfChoice;
}

void ChunkWriter::append_usage(std::string& out, const Usage& usage) const {
  out += head_;
  out += R"(],"usage":)";
  append_usage_json(out, usage);
  out += "}";
}

void ChunkWriter::add_to_choice(std::string& out, std::string_view field, std::span<const TokenId> tokens) {
  KVIST_CHECK(out.ends_with(kEndOfChoice), "a chunk with a choice");
  out.resize(out.size() - kEndOfChoice.size());
  out += ",\"";
  out += field;
  out += "\":";
  append_tokens_json(out, tokens);
  out += kEndOfChoice;
}

void ChunkWriter::add_prompt_tokens(std::string& out, std::span<const TokenId> tokens) {
  KVIST_CHECK(out.ends_with('}'), "a chunk");
  out.pop_back();
  out += R"(,"prompt_token_ids":)";
  append_tokens_json(out, tokens);
  out += '}';
}

void ChunkWriter::add_usage(std::string& out, const Usage& usage) {
  KVIST_CHECK(out.ends_with('}'), "a chunk");
  out.pop_back();
  fmt::format_to(std::back_inserter(out),
                 R"(,"usage":{{"prompt_tokens":{},"total_tokens":{},"completion_tokens":{}}}}})", usage.prompt_tokens,
                 std::uint64_t{usage.prompt_tokens} + usage.completion_tokens, usage.completion_tokens);
}

std::string role_chunk(const AnswerHead& head, std::uint32_t index) {
  std::string out;
  ChunkWriter(head).append_role(out, index);
  return out;
}

std::string text_chunk(const AnswerHead& head, std::uint32_t index, std::string_view text) {
  std::string out;
  ChunkWriter(head).append_text(out, index, text);
  return out;
}

std::string finish_chunk(const AnswerHead& head, std::uint32_t index, std::string_view finish_reason) {
  std::string out;
  ChunkWriter(head).append_finish(out, index, finish_reason);
  return out;
}

std::string usage_chunk(const AnswerHead& head, const Usage& usage) {
  std::string out;
  ChunkWriter(head).append_usage(out, usage);
  return out;
}

}  // namespace kvist::openai
