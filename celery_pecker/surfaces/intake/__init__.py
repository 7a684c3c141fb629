"""The intake: services in other languages record tasks over HTTP.

``celery -A proj pecker intake`` answers once the tasks of a request are committed to
the outbox, whether or not a broker, a relay or a worker is there. A caller keeps the
work until then, and sends the request once more under the same ``Idempotency-Key`` if
no answer came: it is recorded once.

    request    what a body asks for, and what is refused (pure)
    server     the paths, the token, the port

Deep validation is not the intake's: a task of the allow-list is recorded whatever its
arguments are, and judged when it runs.
"""
