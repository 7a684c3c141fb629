"""One frame for the services that answer over HTTP (extra ``[service]``).

    listener   address, certificate, limits, signals
    page       one answer in JSON, for those with the token
    threads    calls that block, off the event loop, only so many of them; one question
               a second for all who ask
    options    the options of the commands that serve

Used by the gate's service (``throttle.service``) and by the intake of the outbox
(``celery_pecker.surfaces.intake``).
"""
