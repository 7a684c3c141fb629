"""What can go wrong, sorted by what the caller should do about it."""


class ThrottleError(Exception):
    """Something in throttle failed."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class Misconfigured(ThrottleError, ValueError):
    """A setting, a limit or a route is wrong: correct it and restart."""


class StoreUnavailable(ThrottleError):
    """Redis, or the service before it, did not answer, or not in time."""


class TokenRefused(StoreUnavailable):
    """The service did not take the token: as good as unreachable."""
