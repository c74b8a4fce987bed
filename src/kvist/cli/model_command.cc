// kvist model create: a model directory with random weights.
#include <fmt/format.h>

#include <filesystem>
#include <string_view>

#include "kvist/base/json_writer.h"
#include "kvist/base/output_file.h"
#include "kvist/cli/commands.h"
#include "kvist/cli/print.h"
#include "kvist/engine/cpu/model_writer.h"
#include "kvist/text/prose.h"
#include "kvist/tokenizer/bpe_trainer.h"

namespace kvist::cli {
namespace {

constexpr std::size_t kTrainingBytes = 1UL << 20;
constexpr std::string_view kBegin = "<|begin_of_text|>";
constexpr std::string_view kEndOfTurn = "<|eot_id|>";
// Headers as in Llama 3's template. Contents are not changed, so that the next turn's prompt begins with this one's.
constexpr std::string_view kChatTemplate =
    "{{- bos_token }}{%- for message in messages %}{{- '<|start_header_id|>' + message['role'] + "
    "'<|end_header_id|>\\n\\n' + message['content'] + '<|eot_id|>' }}{%- endfor %}{%- if add_generation_prompt %}"
    "{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}";

std::string tokenizer_config() {
  JsonWriter json(2);
  json.begin_object().field("bos_token", kBegin).field("eos_token", kEndOfTurn);
  json.field("chat_template", kChatTemplate).field("tokenizer_class", "PreTrainedTokenizerFast").end_object();
  return json.take() + "\n";
}

Result<engine::cpu::DataType> type_of(std::string_view name) {
  if (name == "bf16") return engine::cpu::DataType::kBf16;
  if (name == "f16") return engine::cpu::DataType::kF16;
  if (name == "f32") return engine::cpu::DataType::kF32;
  return fail(ErrorCode::kInvalidArgument, fmt::format("--dtype: expected bf16, f16 or f32, got \"{}\"", name));
}

}  // namespace

Result<void> create_model(const ModelCreateArguments& arguments) {
  const auto size = engine::cpu::model_size_of(arguments.size);
  if (!size) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--size: expected tiny, small or base, got \"{}\"", arguments.size));
  }
  KVIST_TRY(const engine::cpu::DataType type, type_of(arguments.dtype));
  if (std::filesystem::exists(arguments.directory) && !std::filesystem::is_empty(arguments.directory)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: is there already and not empty; name a new folder", arguments.directory));
  }
  const tokenizer::BpeTrainerOptions tokens{
      .vocabulary_size = arguments.vocabulary,
      .special_tokens = {std::string(kBegin), "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
                         std::string(kEndOfTurn)},
      .begin_of_text = std::string(kBegin)};
  KVIST_TRY(const std::string tokenizer,
            tokenizer::train_byte_level_bpe(text::prose(arguments.seed, kTrainingBytes), tokens));
  // They have the last ids, in their order.
  const auto first_special = arguments.vocabulary - static_cast<std::uint32_t>(tokens.special_tokens.size());
  const engine::cpu::LlamaConfig config =
      engine::cpu::config_of(*size, arguments.vocabulary, first_special, arguments.vocabulary - 1);
  KVIST_TRY_VOID(engine::cpu::write_model(config, type, arguments.seed, arguments.directory));
  KVIST_TRY_VOID(write_file(arguments.directory + "/tokenizer.json", tokenizer));
  KVIST_TRY_VOID(write_file(arguments.directory + "/tokenizer_config.json", tokenizer_config()));
  print_line(fmt::format("{}: a {} model of {:.1f} M weights and {} tokens, random by seed {}", arguments.directory,
                         arguments.size, static_cast<double>(config.parameters()) / 1e6, arguments.vocabulary,
                         arguments.seed));
  return {};
}

}  // namespace kvist::cli
