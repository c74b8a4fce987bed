"""Prompts that tell apart how two servers read a request: special tokens in what users write, content arrays, and tokenizer options
of the body. As (description, path, body) without model and lengths."""
from conversations import starter

LLAMA3 = ["<|eot_id|>", "<|begin_of_text|>", "<|start_header_id|>assistant<|end_header_id|>"]
QWEN = ["<|im_end|>", "<|endoftext|>", "<|im_start|>assistant", "<think>", "</think>"]
PROSE = "The tide's at 6:45 — 12345 kg, 3.14!  Héllo wörld, Привет мир, 你好世界 👩‍👩‍👧‍👦\n\n\tif (x != 0) { return \"a\\n\"; }\r\n"


def probes(special):
    """The probes for a family of these special tokens."""
    inside = f"What does {special[0]} mean, and {''.join(special)}? {' '.join(special)} end{special[0]}"
    user = [{"role": "user", "content": PROSE}]
    parts = [{"type": "text", "text": "First part."}, {"type": "text", "text": "Second\n"}, {"type": "text", "text": " third."}]
    turns = [{"role": "system", "content": "Be brief."}, *user, {"role": "assistant", "content": "At noon."},
             {"role": "user", "content": " And tomorrow? "}]
    long = [{"role": "user", "content": starter(7, 120)}]
    chat, text = "/v1/chat/completions", "/v1/completions"
    chats = [
        ("chat", {"messages": user}),
        ("chat of four messages", {"messages": turns}),
        ("special tokens in a user's text", {"messages": [{"role": "user", "content": inside}]}),
        ("special tokens in every role", {"messages": [{"role": role, "content": inside} for role in ("system", "user", "assistant", "user")]}),
        ("special tokens cut in two", {"messages": [{"role": "user", "content": special[0][:-1] + " " + special[0][1:] + special[0] * 2}]}),
        ("array of one text", {"messages": [{"role": "user", "content": parts[:1]}]}),
        ("array of three texts", {"messages": [{"role": "user", "content": parts}]}),
        ("array with special tokens", {"messages": [{"role": "user", "content": [*parts, {"type": "text", "text": inside}]}]}),
        ("arrays in every role", {"messages": [{"role": role, "content": parts} for role in ("system", "user", "assistant", "user")]}),
        ("array with an empty text", {"messages": [{"role": "user", "content": [{"type": "text", "text": ""}, *parts]}]}),
        ("empty content", {"messages": [{"role": "user", "content": ""}]}),
        ("chat, add_special_tokens", {"messages": user, "add_special_tokens": True}),
        ("chat, add_special_tokens false", {"messages": user, "add_special_tokens": False}),
        ("chat, truncated to 40", {"messages": long, "truncate_prompt_tokens": 40}),
        ("chat, truncated to the model's length", {"messages": long, "truncate_prompt_tokens": -1}),
        ("chat, truncated to more than it is", {"messages": user, "truncate_prompt_tokens": 500}),
        ("chat, truncated from the right", {"messages": long, "truncate_prompt_tokens": 40, "truncation_side": "right"}),
        ("chat, truncated and special", {"messages": long, "truncate_prompt_tokens": 40, "add_special_tokens": True}),
        ("chat without a generation prompt", {"messages": user, "add_generation_prompt": False}),
        ("chat that continues the last message", {"messages": turns[:3], "add_generation_prompt": False, "continue_final_message": True}),
        ("chat with the template's arguments", {"messages": user, "chat_template_kwargs": {"enable_thinking": False, "date_string": "1 May 2026"}}),
        ("chat with documents", {"messages": user, "documents": [{"title": "a", "text": "b"}]}),
        ("chat with a tool", {"messages": [{"role": "user", "content": "Hello"}], "tool_choice": "none", "tools": [{"type": "function", "function": {
            "name": "tide", "description": "Heights of the tide.", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}}]}),
        ("messages with names", {"messages": [{"role": "user", "name": "ann", "content": "Hello"}]}),
        ("a developer's message", {"messages": [{"role": "developer", "content": "Be brief."}, *user]}),
        ("an assistant without content", {"messages": [*user, {"role": "assistant", "content": None, "tool_calls": [{
            "id": "call_1", "type": "function", "function": {"name": "tide", "arguments": "{\"at\": \"noon\"}"}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": "2 m"}]}),
        ("reasoning in an earlier answer", {"messages": [*user, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes."}, *user]}),
        ("prompt_logprobs in a chat", {"messages": user, "prompt_logprobs": 0}),
        ("a salted chat", {"messages": user, "cache_salt": "salt"}),
    ]
    texts = [
        ("text", {"prompt": PROSE}),
        ("special tokens in a text", {"prompt": inside}),
        ("text that begins with the first token", {"prompt": special[min(1, len(special) - 1)] + PROSE}),
        ("text, add_special_tokens", {"prompt": PROSE, "add_special_tokens": True}),
        ("text, add_special_tokens false", {"prompt": PROSE, "add_special_tokens": False}),
        ("text, truncated to 40", {"prompt": starter(8, 120), "truncate_prompt_tokens": 40}),
        ("text, truncated to the model's length", {"prompt": starter(8, 120), "truncate_prompt_tokens": -1}),
        ("text, truncated from the right", {"prompt": starter(8, 120), "truncate_prompt_tokens": 40, "truncation_side": "right"}),
        ("text, truncated without special tokens", {"prompt": starter(8, 120), "truncate_prompt_tokens": 40, "add_special_tokens": False}),
        ("tokens", {"prompt": [5, 6, 7, 8, 9, 10]}),
        ("tokens, add_special_tokens", {"prompt": [5, 6, 7, 8, 9, 10], "add_special_tokens": True}),
        ("tokens, truncated", {"prompt": list(range(40, 140)), "truncate_prompt_tokens": 40}),
        ("a list of one text", {"prompt": ["One text."]}),
        ("a list of one list of tokens", {"prompt": [[5, 6, 7]]}),
        ("text with prompt_logprobs", {"prompt": PROSE, "prompt_logprobs": 1}),
        ("text with echo", {"prompt": PROSE, "echo": True}),
        ("a salted text", {"prompt": PROSE, "cache_salt": "salt"}),
        ("white space", {"prompt": "  \n\t  "}),
    ]
    return [(what, chat, body) for what, body in chats] + [(what, text, body) for what, body in texts]
