"""An app with an outbox whose tasks say which version of celery-pecker ran them.

    python shop.py COUNT                records so many of each kind
    celery -A shop worker -P threads    delivers and runs them

It is started under the code of this tree and under that of an older one, so it uses
nothing that only one of them has.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import psycopg
from celery import Celery

import celery_pecker.worker
from celery_pecker.outbox import Outbox

app = Celery("shop", broker=os.environ["SHOP_BROKER"])
app.conf.update(json.loads(os.environ["SHOP_CONF"]))
celery_pecker.worker.connect()
outbox = Outbox(app)
KINDS = {"sent": True, "done": "until_done", "here": "local"}


def work(self: Any, _number: int) -> None:
    """Say who runs it; of those that come again the first run fails."""
    with psycopg.connect(app.conf.pecker_dsn, autocommit=True) as connection:
        connection.execute(
            "insert into ran values (%s, %s)",
            [self.request.id, os.environ["SHOP_VERSION"]],
        )
    if KINDS[self.name] is not True and not self.request.retries:
        message = "the first run"
        raise RuntimeError(message)


for name, mode in KINDS.items():
    app.task(name=name, bind=True, outbox=mode)(work)

if __name__ == "__main__":
    for number in range(int(sys.argv[1])):
        with psycopg.connect(app.conf.pecker_dsn) as connection:
            for name in KINDS:
                sent = outbox.send(
                    app.signature(name, (number,)), connection=connection
                )
                connection.execute(
                    "insert into orders values (%s, %s)", [sent.id, name]
                )
