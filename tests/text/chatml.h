// A chat template that tests share.
#pragma once

#include <string_view>

namespace kvist::text {

/// ChatML as many models ship it; space around a message is not kept.
inline constexpr std::string_view kChatMl =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content|trim + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

}  // namespace kvist::text
