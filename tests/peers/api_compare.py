"""The differences between two answers to one request, as a client sees them. Fields that differ between any two answers (ids,
times, cached tokens) are made equal first; numbers may differ by the rounding of another batch. Frames of a stream are compared one
by one; if tokens were grouped differently, the frames' combined content is compared, choice by choice.
"""
import dataclasses
import json
import math
import re


@dataclasses.dataclass
class Answer:
    status: int
    headers: dict  # names in lower case
    body: bytes
    problem: str = ""  # why the body is incomplete

    @property
    def is_stream(self):
        return self.headers.get("content-type", "").startswith("text/event-stream")


# Fields that no two answers have in common.
_OF_THIS_ANSWER = {"id", "created", "created_at", "completed_at", "cached_tokens", "created_cache_tokens", "request_id", "item_id"}
# Repeated in text: an address of the server, an id of the request.
_ID_IN_TEXT = re.compile(r"(chatcmpl|cmpl|resp|msg|rs|modelperm|req|embd|score|rerank|pool|classify|tokn)[-_][0-9a-zA-Z_-]{8,}")


def _without_ids(value):
    if isinstance(value, dict):
        return {key: "*" if key in _OF_THIS_ANSWER else _without_ids(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_ids(item) for item in value]
    return _ID_IN_TEXT.sub(r"\1-*", value) if isinstance(value, str) else value


def _same(a, b):
    """Equal, except for rounding by another order of summation."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b or (math.isfinite(a) and math.isfinite(b) and abs(a - b) <= 1e-3 * max(1, abs(a), abs(b)))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    return a == b


def first_difference(a, b, path="$"):
    """The first difference of two JSON values in words; empty if they are equal."""
    if _same(a, b):
        return ""
    if isinstance(a, dict) and isinstance(b, dict):
        if a.keys() != b.keys():
            return f"{path}: only direct {sorted(a.keys() - b.keys())}, only through the gateway {sorted(b.keys() - a.keys())}"
        return next(first_difference(a[key], b[key], f"{path}.{key}") for key in a if not _same(a[key], b[key]))
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return next(first_difference(x, y, f"{path}[{i}]") for i, (x, y) in enumerate(zip(a, b)) if not _same(x, y))
    return f"{path}: {json.dumps(a)[:200]} direct, {json.dumps(b)[:200]} through the gateway"


def frames_of(body):
    """The data of a stream's events, parsed if it is JSON."""
    frames = []
    for event in body.replace(b"\r\n", b"\n").split(b"\n\n"):
        lines = event.split(b"\n")
        data = b"\n".join(line[5:].lstrip() for line in lines if line.startswith(b"data:")).decode(errors="replace")
        name = b"".join(line[6:].strip() for line in lines if line.startswith(b"event:")).decode(errors="replace")
        if not data:
            continue
        try:
            value = _without_ids(json.loads(data))
        except ValueError:
            value = data
        frames.append({"event": name, "data": value} if name else value)
    return frames


def _shape(value):
    """Names and types without values."""
    if isinstance(value, dict):
        return {key: _shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shape(value[0])] if value else []
    return value is None


def told(frames):
    """The combined content of an OpenAI stream's frames: text, log probabilities, token ids and reason per choice, the usage at the
    end, the kinds of frames that there were, the last one."""
    choices, shapes, usage, others = {}, set(), None, []
    for frame in frames:
        if not isinstance(frame, dict) or not isinstance(frame.get("choices"), list):
            others.append(frame)
            continue
        usage = frame.get("usage") if not frame["choices"] else usage
        plain = {**frame, "choices": [{**choice, "index": 0} for choice in frame["choices"]]}
        shapes.add(json.dumps(_shape(plain), sort_keys=True))
        for choice in frame["choices"]:
            so_far = choices.setdefault(choice.get("index"), {"text": "", "lists": {}, "ends": {}})
            delta = choice.get("delta") or {}
            so_far["text"] += (delta.get("content") or "") + (choice.get("text") or "")
            for name, value in (choice.get("logprobs") or {}).items():
                if isinstance(value, list):
                    so_far["lists"].setdefault(name, []).extend(value)
            for name in ("token_ids", "prompt_token_ids"):
                so_far["lists"].setdefault(name, []).extend(choice.get(name) or [])
            so_far["ends"].update({name: choice[name] for name in ("finish_reason", "stop_reason") if choice.get(name) is not None})
    return {"choices": {str(index): choices[index] for index in sorted(choices, key=str)}, "usage": usage, "shapes": sorted(shapes),
            "others": others}


def _compare_streams(direct, gateway):
    a, b = frames_of(direct.body), frames_of(gateway.body)
    if _same(a, b):
        return []
    difference = first_difference(told(a), told(b))
    return [f"body: frames: {difference}"] if difference else []


def _compare_bodies(direct, gateway):
    if direct.body == gateway.body:
        return []
    if direct.is_stream and gateway.is_stream:
        return _compare_streams(direct, gateway)
    try:
        a, b = (_without_ids(json.loads(answer.body)) for answer in (direct, gateway))
    except ValueError:
        return [f"body: {direct.body[:200]!r} direct, {gateway.body[:200]!r} through the gateway"]
    difference = first_difference(a, b)
    return [f"body: {difference}"] if difference else []


# Of one hop, or of this answer alone.
_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "x-request-id"}
# What a worker says of itself, which is not the server that the client knows (docs/guide/gateway.md).
_WORKERS_OWN = {"server"}


def _compare_headers(direct, gateway, asked):
    differences = []
    for name in sorted(gateway.headers.keys() & _WORKERS_OWN):
        differences.append(f"header {name}: passed on by the gateway")
    for name in sorted(direct.headers.keys() - _HOP - _WORKERS_OWN):
        if gateway.headers.get(name) != direct.headers[name]:
            differences.append(f"header {name}: {direct.headers[name]!r} direct, {gateway.headers.get(name)!r} through the gateway")
    added = [name for name in gateway.headers.keys() - direct.headers.keys() - _HOP if not name.startswith("x-kvist-")]
    if added:
        differences.append(f"header {', '.join(sorted(added))}: only through the gateway")
    wanted = {name.lower(): value for name, value in asked.items()}.get("x-request-id")
    if wanted and gateway.headers.get("x-request-id") != wanted:
        differences.append("header x-request-id: not the client's")
    return differences


def compare(asked, direct, gateway):
    """Each difference in words; `asked`: header fields of the request."""
    differences = []
    if direct.status != gateway.status:
        differences.append(f"status: {direct.status} direct, {gateway.status} through the gateway")
    if direct.problem != gateway.problem:
        differences.append(f"end: {direct.problem or 'whole'!r} direct, {gateway.problem or 'whole'!r} through the gateway")
    return differences + _compare_headers(direct, gateway, asked) + _compare_bodies(direct, gateway)
