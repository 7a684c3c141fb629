"""How the documentation is built; `make docs` treats each warning as an error."""

from __future__ import annotations

import re
from importlib.metadata import version as version_of
from typing import Any

project = "celery-pecker"
author = "The celery-pecker maintainers"
project_copyright = author
release = version_of("celery-pecker")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
# Blocks of a session show what is typed behind a prompt; only that is copied.
copybutton_prompt_text = "$ "
exclude_patterns = ["_build", "README.md"]

html_theme = "furo"
html_title = "celery-pecker"
html_static_path = ["_theme"]
html_css_files = ["landing.css"]

# `# Heading` anchors can be linked to from other pages.
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]

# Docstrings write code between single quotes of this kind: `name`.
default_role = "code"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
autodoc_member_order = "bysource"

# Types of arguments that only our own code, or its tests, bring.
INTERNAL = (
    "deadline.budget",
    "kernel.clock",
    "observers.lease",
    "observers.model.Unreachable",
    "outbox.sinks",
    "schedules.engine",
    "testing.manual",
)

# References are checked, and the house's own must resolve. Those to other projects
# would need their inventories from the network, which a build must not need.
nitpick_ignore_regex = [
    (r"py:.*", r"(?!celery_pecker).*"),
    (
        r"py:class",
        rf"celery_pecker\.({'|'.join(INTERNAL)})\b.*",
    ),
    # Type variables are no objects of their own.
    (r"py:class", r"celery_pecker\..*\.([A-Z]|Answer|Given|Item|Result)"),
]


SENTENCES: dict[str, list[str]] = {}


def keep_sentences(*told: Any) -> None:
    """Remember what an attribute's docstring says.

    Napoleon takes what stands before a colon in its first line for a type.
    """
    _app, what, name, _object, _options, lines = told
    if what in {"attribute", "property"}:
        SENTENCES[name] = [*lines]


def restore_sentences(*told: Any) -> None:
    """Show that, and not what Napoleon has made of it."""
    _app, _what, name, _object, _options, lines = told
    lines[:] = SENTENCES.pop(name, lines)


def own_signature(*told: Any) -> tuple[str, str | None]:
    """Show none of enums and protocols: nobody calls them."""
    _app, _what, _name, _object, _options, signature, returned = told
    inherited = re.match(r"\((value\b|\*args\b.*\*\*kwargs)", signature or "")
    return ("" if inherited else signature, returned)


def setup(app: Any) -> None:
    """Add them."""
    app.connect("autodoc-process-docstring", keep_sentences, priority=400)
    app.connect("autodoc-process-docstring", restore_sentences, priority=600)
    app.connect("autodoc-process-signature", own_signature)
