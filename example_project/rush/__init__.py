"""The rush hour: 4,000 reminders fall due at one moment, on one database.

On the hour 4,000 meetings begin, and each has a reminder that looks up who takes part
and writes down that they were told. The same people open the service's front page at
that moment: one small query, which should take a millisecond.

It is played twice, with nothing changed but ``throttle_shadow``: first nothing is held
and the traffic is only counted, then the gate holds what is more than the database
bears. `python -m example_project.rush` plays it alone; `make demo` plays it after its
story and puts both into one picture.

    app, tasks     the Celery app: entries, limit, and what a reminder does
    play           one act: servers are given, workers run, everything is looked at
    look           what is looked at: traffic, held tasks, busy connections, front page
    picture        both acts side by side
    story          the two acts, and what the report says of them
"""
