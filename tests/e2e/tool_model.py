"""A tiny model whose vocabulary has a token that is a whole call of a tool, in Qwen 2.5's template."""
import json
import pathlib

from deployment import create_model

HERE = pathlib.Path(__file__).parent
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


def calling_model(directory):
    """Turns the unused end-of-text token into the call; returns that token."""
    create_model(directory)
    path = directory / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    token = next(t for t in tokenizer["added_tokens"] if t["content"] == "<|end_of_text|>")
    vocabulary = tokenizer["model"]["vocab"]
    if vocabulary.pop(token["content"], None) is not None:
        vocabulary[CALL] = token["id"]
    token.update(content=CALL, special=False, normalized=False)
    path.write_text(json.dumps(tokenizer))
    (directory / "chat_template.jinja").write_text((HERE.parent / "golden/chat_templates/Qwen2.5-0.5B-Instruct.jinja").read_text())
    return token["id"]
