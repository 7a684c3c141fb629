"""Scripts, styles and pictures of pages."""

import hashlib
from functools import cache
from pathlib import Path

from tornado.web import HTTPError, StaticFileHandler


class FileView(StaticFileHandler):
    """A file of a page."""

    def set_default_headers(self) -> None:
        """Let no browser guess another type than the header says."""
        self.set_header("X-Content-Type-Options", "nosniff")

    def parse_url_path(self, url_path: str) -> str:
        """Return the path; no file's has a NUL in it, and asking for it would raise."""
        if "\0" in url_path:
            raise HTTPError(404)
        path: str = super().parse_url_path(url_path)
        return path


@cache
def version_of(file: Path) -> str:
    """Return what changes with the file, so that browsers may keep it for ever."""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:12]
