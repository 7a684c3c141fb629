"""One scheduler of a process, put together: its loop, its connections, its end.

Beat has one of these, a worker has one or two: one that publishes, and one that runs
local entries, with a thread and a connection of its own, so that a broker that hangs
never delays a local run.

==================  =========================================================
``replica``         what beat and workers hold in their hands; what it claims with
``definitions``     what it makes of stored schedules
``dispatching``     where won slots go, and what may hold entries back
``relays``          the threads that deliver outboxes
``alarms``          the threads that look for what is wrong, and send notices
``unknown_tasks``   the thread that names entries whose task no worker knows
``process``         all of this in one process, and the port for Prometheus and probes
==================  =========================================================
"""

from celery_pecker.schedules.replica.process import Process
from celery_pecker.schedules.replica.replica import Claimant, Replica

__all__ = ["Claimant", "Process", "Replica"]
