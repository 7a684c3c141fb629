"""What people look at, described once for every surface.

A *view* says of one thing (an outbox, observers, alarms) which tables it has, what
stands in their columns and in which unit, which states a row may be in, what may be
done to it, and which figures sum it up. *Surfaces* render it: commands, Flower and
metrics. A new column is a field of the row's class and a line here; no surface counts
columns or reads a row by position.

    model      the words of a description: `View`, `Table`, `Column`, `Act`, `Figure`
    phrases    numbers and lengths of time, as people read them
    outbox     what waits in an outbox, and its messages
    observers  hosts, observers, and the life of one
    alarms     what rings, and where notices go
    audit      who did what
    history    figures over time, and what happened meanwhile
"""
