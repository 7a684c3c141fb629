"""Jobs that run until they are stopped, on hosts that hold one lease each.

A task that never ends does not fit a broker: RabbitMQ hands it out again after 30
minutes, Redis after an hour, and a warm shutdown waits for it for ever. An observer is
a row instead. A host holds it for as long as the host renews its one lease; where the
host dies, another one takes the row. `docs/explanation/observers.md` tells why.

Nouns
    *kind*       a function that was declared by ``@observers.observer``
    *observer*   one job of a kind, with a name and arguments: a row
    *host*       a process with one event loop that runs observers; in the tables a
                 *node*: one life of a host
    *life*       one observer in one host under one epoch, from claim to last report
    *supervisor* starts hosts and replaces them: a worker, or ``pecker observe``

Tables (``kernel/sql/migrations``)
    ``pecker_observers``          one row each. ``status`` goes forward only: created,
                                  processing, on_deleting, deleted. ``node``: which host
                                  runs it; null: none. ``epoch``: its fencing token.
                                  ``parked_at``, ``not_before``, ``failures``,
                                  ``moves``, ``state`` (the cursor) stand beside it
    ``pecker_observer_nodes``     one row for each life of a host, with the one lease
    ``pecker_observer_kinds``     what hosts can run: a start by name needs no code
    ``pecker_observer_history``   what happened, bounded
    ``pecker_observer_notices``   ``on_parked``, ``on_moved``: written with the event,
                                  deleted when they are sent

Which part does what, when
    *caller* (``app``, ``kind``, ``operations``; ``sql/observers.sql``)
        ``start`` inserts a row in the caller's transaction. ``stop`` sets
        ``on_deleting``, or ``deleted`` where no host has the row: an order stays in the
        row until it is obeyed, so one that arrives while the observer moves is not
        lost. ``restart`` names the epoch that is to end
    *host* (``hosts``; ``sql/observers_hosts.sql``), ten times in a lease
        ``pulse_observer_node`` renews the lease and looks. Where there is something:
        ``free_observers`` (of the dead), ``report_observers`` (what became of lives),
        ``save_observer_states``, ``read_observer_orders``, ``survey_observers``,
        ``claim_observers``, ``retake_observers``. Nothing else is written while all is
        well
    *observer's code* (``lease``)
        ``lease.check()`` by the clock of this machine; ``lease.guard(connection)``
        holds the row in the open transaction, if the epoch is still this life's
    *supervisor* (``hosts.supervisor``)
        kills a host whose event loop does not turn, buries it at once (it has waited
        for the process), starts another one

Laws
    *one lease per host*: 10,000 observers cost no more renewals than one
    *witness*: a host that has not held its own lease unbroken for its whole length
    declares no other dead, or the first host after an outage would end all; but one
    with the name of a host whose last renewal was before it joined follows that one
    *trust* ends at 80 % of the lease, counted from before the renewal was sent (I2):
    lives end before any other begins
    *epoch* rises with each claim (I3): of two lives that overlap although (a frozen
    process) the guarded writes of one succeed. A guard locks the row for share: the
    next life begins after that transaction
    *placement* is no single host's task: each takes and gives by the same survey
    (``placement``)

Where to change what: placement in ``placement``; retries in ``retry``; what is refused
in ``refusals``; words and rows for people in ``model``.
"""

from typing import TYPE_CHECKING

from celery_pecker.kernel.lazy_names import lazy_names

if TYPE_CHECKING:
    from celery_pecker.observers.app import Observers, observers_of
    from celery_pecker.observers.lease import Lease
    from celery_pecker.observers.model import Answer, Place, Status
    from celery_pecker.observers.retry import Retry

__all__ = ["Answer", "Lease", "Observers", "Place", "Retry", "Status", "observers_of"]

__getattr__, __dir__ = lazy_names(
    globals(),
    {
        "model": "Answer Place Status",
        "lease": "Lease",
        "app": "Observers observers_of",
        "retry": "Retry",
    },
)
