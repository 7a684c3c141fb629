"""How the documentation is built; `make docs` treats each warning as an error."""

from __future__ import annotations

from importlib.metadata import version as version_of

project = "celery-pecker"
author = "The celery-pecker maintainers"
project_copyright = author
release = version_of("celery-pecker")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "README.md"]

html_theme = "furo"
html_title = "celery-pecker"
html_static_path = ["_theme"]
html_css_files = ["landing.css"]

# `# Heading` anchors can be linked to from other pages.
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]

autodoc_typehints = "description"
autodoc_member_order = "bysource"

# References are checked, and the house's own must resolve. Those to other projects
# would need their inventories from the network, which a build must not need.
nitpick_ignore_regex = [
    (r"py:.*", r"(?!celery_pecker).*"),
    # Type variables are no objects of their own.
    (r"py:class", r"celery_pecker\..*\.([A-Z]|Answer|Given|Item|Result)"),
]
