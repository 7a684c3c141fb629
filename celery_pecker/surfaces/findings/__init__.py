"""Everything that is wrong, found once for every surface.

A *finding* says what a look found: how bad it is, since when, what to do, which act of
ours ends it, and what follows from it. Commands, Flower's page *Now* and probes render
the same list.

    project     what is looked at: an app, its settings, its tables
    model       `Finding` and its grade
    postgres, broker, hosts, packages   ask, each in bounded time
    judge, pace                         decide. Pure
    others      what other packages find, by an entry point
    roots       which finding follows from which. Pure
"""
