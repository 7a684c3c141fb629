"""Gather the items of many callers into few calls.

    rows = Batches(insert_rows, most=100, wait=0.02)
    rows.do(row)              # in any thread: its own result, or its own error

Callers that each make a round trip of their own wait for each other on a slow line.
Gathered, a hundred of them share one. A call begins when ``most`` items are there, or
``wait`` seconds after the first of them.

Nouns
    *item*    what one caller hands over
    *call*    the function or coroutine function that takes a list of items
    *batch*   the items of one call, in the order in which they came

Under failure
    the call raises          each caller of the batch gets the error; with
                             ``one_by_one`` each item is sent again in a call of its own
    the call returns errors  an exception in the place of a result is raised for the
                             caller of that item alone
    too many items wait      `BatchesFull`: nothing is dropped in silence
    close()                  what was accepted is sent, whatever else comes is refused

Not promised
    that an item is sent once when ``one_by_one`` is on: a failed call may have done a
    part of its work. An order between the items of two calls at once.
"""

from celery_pecker.batches.coroutines import AsyncBatches
from celery_pecker.batches.threads import Batches
from celery_pecker.kernel.errors import BatchesClosed, BatchesFull

__all__ = ["AsyncBatches", "Batches", "BatchesClosed", "BatchesFull"]
