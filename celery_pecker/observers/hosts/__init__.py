"""The processes that run observers.

supervisor        plans the hosts of an app
supervised_hosts  starts hosts, reads their beats, replaces those that fail
host_main         the main function of a host; sends on_parked and on_moved
supervisor_main   the main function of pecker observe
host              one step of a host: renew, look, take, report, give away
lives             a life as a coroutine, a thread or a process
events            sends the signals of observers
child             a life in a process of its own; imports the app in it
tables            what a host asks of the tables
capacity          how much a host may hold
"""
