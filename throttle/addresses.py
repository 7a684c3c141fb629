"""Addresses in the settings: of Redis, of the service, of a PostgreSQL to watch.

They may carry a password, so that none is ever shown as a whole, nor what a library
says of it, for that may quote it.
"""

from urllib.parse import urlsplit

from throttle.errors import Misconfigured

REDIS = ("redis", "rediss", "unix", "sentinel")


def redis(key: str, text: str) -> str:
    """Return the URL of a Redis, or say what is allowed."""
    scheme, _, rest = text.partition("://")
    if scheme not in REDIS or not rest:
        allowed = ", ".join(f"{one}://" for one in REDIS)
        begins = repr(text.partition(":")[0] + ":") if ":" in text else "no scheme"
        raise Misconfigured(
            f"{key} must be the URL of a Redis, 'redis://host:6379/1' ({allowed}…);"
            f" this one begins with {begins}"
        )
    number = rest.partition("?")[0].partition("/")[2].strip("/")
    if scheme != "unix" and number and not number.isdecimal():
        # What follows a "/" of a password has an "@".
        shown = f"in {number!r}" if "@" not in text else "in a text"
        raise Misconfigured(
            f"{key} must end in the number of a database, 'redis://host:6379/1', not"
            f" {shown}; '/' in a password is written as %2F"
        )
    return text


def service(key: str, text: str) -> str:
    """Return the URL of the service, or say what is allowed."""
    try:
        parts = urlsplit(text)
        right = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        right = False
    if not right:
        begins = repr(text.partition(":")[0]) if ":" in text else "no scheme"
        raise Misconfigured(
            f"{key} must be an http:// or https:// URL with a host; this one begins"
            f" with {begins}"
        )
    return text.rstrip("/")


def shown(url: str) -> str:
    """Return a URL without credentials and options."""
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2].partition('?')[0]}"


def postgres(key: str, text: str) -> dict[str, str]:
    """Return the parts of a connection string, or say what is allowed."""
    # Only the watcher needs the driver
    from psycopg import Error, conninfo  # noqa: PLC0415

    try:
        parts = conninfo.conninfo_to_dict(text)
    except (Error, UnicodeError):
        raise Misconfigured(
            f"{key} is not a PostgreSQL connection string; allowed are"
            " 'postgresql://user@host/database' or 'host=… dbname=…'"
        ) from None
    return {name: str(value) for name, value in parts.items()}
