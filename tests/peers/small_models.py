"""Small models with random weights that carry the special tokens and the chat template of a published family.

`kvist model create` makes weights and a tokenizer; the family's special tokens replace the last merges of the tokenizer. vLLM and
kvist's gateway both read the directory."""
import json
import pathlib
import subprocess

import peer
from deployment import BINARY

TEMPLATES = peer.ROOT / "tests" / "golden" / "chat_templates"

# As in the families' tokenizer.json: text, and whether it is a special token.
LLAMA3_TOKENS = [("<|begin_of_text|>", True), ("<|end_of_text|>", True), ("<|finetune_right_pad_id|>", True), ("<|start_header_id|>", True),
                 ("<|end_header_id|>", True), ("<|eom_id|>", True), ("<|eot_id|>", True), ("<|python_tag|>", True)]
QWEN_TOKENS = [("<|endoftext|>", True), ("<|im_start|>", True), ("<|im_end|>", True), ("<tool_call>", False), ("</tool_call>", False),
               ("<tool_response>", False), ("</tool_response>", False), ("<think>", False), ("</think>", False)]
QWEN_WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def create(folder, *options):
    """`kvist model create` with F32 weights."""
    done = subprocess.run([BINARY, "model", "create", folder, "--size", "small", "--dtype", "f32", "--seed", "3", *options],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return pathlib.Path(folder)


def llama3(folder):
    """Llama 3.1's special tokens, words and template; the text begins with <|begin_of_text|>."""
    model = create(folder)
    ids = give_tokens(model, LLAMA3_TOKENS)
    edit(model / "tokenizer.json", lambda file: file["model"].update(ignore_merges=True))
    give_template(model, "Llama-3.1-8B-Instruct", {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"})
    end_with(model, ids["<|begin_of_text|>"], [ids["<|end_of_text|>"], ids["<|eom_id|>"], ids["<|eot_id|>"]])
    return model


def qwen(folder):
    """Qwen 3's special tokens, words, normal form and template; nothing is put before a text."""
    model = create(folder)
    ids = give_tokens(model, QWEN_TOKENS)

    def words(file):
        file["normalizer"] = {"type": "NFC"}
        file["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {"Regex": QWEN_WORDS}
        file["post_processor"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}

    edit(model / "tokenizer.json", words)
    give_template(model, "Qwen3-0.6B", {"bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"})
    end_with(model, ids["<|endoftext|>"], [ids["<|im_end|>"], ids["<|endoftext|>"]])
    return model


def edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content, ensure_ascii=False) + "\n")


def give_tokens(model, tokens):
    """Appends these tokens to the learned ones in a vocabulary of unchanged size; text -> id."""
    ids = {}

    def replace(file):
        vocabulary, merges = file["model"]["vocab"], file["model"]["merges"]
        size = len(vocabulary) + len(file["added_tokens"])
        # The tokens learned last are in no other merge.
        for text, number in list(vocabulary.items()):
            if number >= size - len(tokens):
                del vocabulary[text]
        file["model"]["merges"] = [merge for merge in merges if "".join(merge) in vocabulary]
        ids.update({text: size - len(tokens) + i for i, (text, _) in enumerate(tokens)})
        form = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
        file["added_tokens"] = [{"id": ids[text], "content": text, **form, "special": special} for text, special in tokens]
        begin = file["post_processor"].get("special_tokens", {}).get("<|begin_of_text|>")
        if begin:
            begin["ids"] = [ids.get("<|begin_of_text|>", 0)]

    edit(model / "tokenizer.json", replace)
    return ids


def give_template(model, name, tokens):
    template = (TEMPLATES / f"{name}.jinja").read_text()
    config = {**tokens, "chat_template": template, "clean_up_tokenization_spaces": False, "tokenizer_class": "PreTrainedTokenizerFast"}
    (model / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False) + "\n")


def end_with(model, begin, ends):
    for name in ("config.json", "generation_config.json"):
        edit(model / name, lambda file: file.update(bos_token_id=begin, eos_token_id=ends))


def text_tokens(model):
    """The ids of the tokens that are whole characters of ASCII text. A small model's random answers are mostly parts of characters, and
    vLLM sends a chunk only with the next whole one: with these alone, as from a model that has learned to write, each token is a chunk."""
    vocabulary = json.loads((model / "tokenizer.json").read_text())["model"]["vocab"]
    return [number for text, number in vocabulary.items() if text.replace("Ġ", " ").isascii() and text.replace("Ġ", " ").isprintable()]
