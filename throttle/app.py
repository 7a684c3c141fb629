"""One line that gives a Celery app its gate."""

from celery import Celery

from throttle.settings import Settings


class Throttle:
    """Workers of the app hold tasks back, as its settings say.

        app = Celery("shop", broker="redis://localhost")
        Throttle(app, redis_url="redis://localhost:6379/1", limits={"main": 5000})

    The same as the settings ``throttle_redis_url``, ``throttle_limits`` and so on; what
    is an argument goes before what a configuration says. Nothing is asked of any server
    until a worker starts.

    Raises:
        Misconfigured: There is no such setting.
    """

    def __init__(self, app: Celery, **settings: object) -> None:
        self.app = app
        Settings.put(app.conf, settings, caller="Throttle")
        # The bootsteps of a worker are nothing that a web process should load.
        from throttle.worker import install  # noqa: PLC0415

        install(app)

    @property
    def settings(self) -> Settings:
        """Return what the app's configuration says now, checked."""
        return Settings.read(self.app.conf)
