"""The processes that run observers.

supervisor        plans the hosts of an app
supervised_hosts  starts hosts, replaces those that died, hang or have grown
heard             one process of a host, and what its beats say
host_main         the main function of a host
supervisor_main   the main function of pecker observe
host              one step of a host: renew, look, take, report, give away
lives             what runs on the event loop
running           a life as a coroutine, a thread or a process
events            sends the signals of observers
notices           sends on_parked and on_moved
child             a life in a process of its own; imports the app in it
tables            what a host asks of the tables
capacity          how much a host may hold
"""
