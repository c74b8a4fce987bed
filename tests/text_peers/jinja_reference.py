"""Jinja as the transformers library sets it up for chat templates. Reads lines of {"template", "input", "now"}, writes lines of
{"text"} or {"error"}."""
import datetime
import json
import sys

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    """{% generation %}: marks what the model writes, for training."""
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def render(case):
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    now = datetime.datetime.fromtimestamp(case["now"], datetime.timezone.utc)
    environment.globals["strftime_now"] = now.strftime
    return environment.from_string(case["template"]).render(**case["input"])


for line in sys.stdin:
    try:
        answer = {"text": render(json.loads(line))}
    except Exception as error:  # any error of a template is its result
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer))
