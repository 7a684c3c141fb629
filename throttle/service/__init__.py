"""The service before Redis: only it needs to reach Redis.

Processes tell it what they counted and hear their share, over HTTP; people and
dispatchers in other languages ask it. The client is a store as Redis is one
(``throttle.store.http``), so that a worker does not know which of them it has.

    app      paths, their pages and the token; the service at its port
    pages    the answers
    state    what all readers see: the store is read once per tick; how many tasks a
             dispatcher may send now

It keeps nothing: as many as one likes may stand behind one address, and a restart
loses nothing but the started cycles of ``/v1/admit``.
"""
