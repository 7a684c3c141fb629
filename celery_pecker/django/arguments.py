"""Show the arguments of a message as text, without building any object of it. Pure.

Any role that may write the table can store a body. JSON and texts are shown; pickle
and whatever else could run code or fill the memory when it is decoded is not.
"""

import json

LONGEST = 20_000
"""Characters that are shown."""
TEXTS = {
    "application/json",
    "application/x-yaml",
    "text/plain",
    "text/yaml",
}
"""Kinds of bodies that are text."""


def shown(body: bytes, *, content_type: str, encoding: str, headers: str) -> str:
    """Return a body as text; where it is none, the headers' words for the arguments.

    Args:
        body: as Celery serialized and compressed it.
        content_type: of it.
        encoding: the name of its character set.
        headers: of the message, as JSON.
    """
    known = _object(headers)
    compression = known.get("compression")
    if compression or content_type not in TEXTS:
        form = f"{content_type}, {compression}" if compression else content_type
        note = f"{len(body)} bytes of {form}, which is not decoded here"
        parts = [
            str(known[key]) for key in ("argsrepr", "kwargsrepr") if known.get(key)
        ]
        return cut("\n".join([note, *parts]))
    try:
        text = body[: LONGEST * 4].decode(encoding, errors="replace")
    except LookupError:
        text = body[: LONGEST * 4].decode("ascii", errors="replace")
    return cut(_arguments(text) if content_type == "application/json" else text)


def cut(text: str) -> str:
    """Return a text, or its beginning."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n… (cut)"


def _arguments(text: str) -> str:
    """Return args and kwargs of Celery's second protocol; else the text as it is."""
    try:
        args, kwargs, _ = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return text
    return "\n".join(json.dumps(one, ensure_ascii=False) for one in (args, kwargs))


def _object(text: str) -> dict[str, object]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
