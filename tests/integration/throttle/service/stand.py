"""The service as it is, on a thread and a free port of loopback."""

from __future__ import annotations

from celery_pecker.surfaces.service.listener import Listener
from tests.served import Served
from throttle.model import ExchangeAnswer, Report, Store
from throttle.service import GateService
from throttle.settings import Settings

TOKEN = "s3same"  # noqa: S105  # a test's own


class Counted:
    """A store, and how often it was told something."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.asked = 0
        self.look, self.elect = store.look, store.elect
        self.lower, self.close, self.check = store.lower, store.close, store.check
        self.adjust, self.recall, self.keep = store.adjust, store.recall, store.keep

    def exchange(self, report: Report) -> ExchangeAnswer:
        """Hand it on."""
        self.asked += 1
        return self._store.exchange(report)


class Stand(Served):
    """One service over a store, until `close`."""

    def __init__(self, store: Store, *, port: int = 0, **conf: object) -> None:
        self.settings = Settings.read(
            {
                "throttle_redis_url": "redis://not.asked",
                "throttle_service_token": TOKEN,
                "throttle_limits": {"main": 1_000},
                **conf,
            }
        )
        self._counted = Counted(store)
        service = GateService(self.settings, self._counted, Listener(port=port))
        super().__init__(service, token=TOKEN)

    @property
    def asked(self) -> int:
        """How many reports its store has been asked to take."""
        return self._counted.asked
