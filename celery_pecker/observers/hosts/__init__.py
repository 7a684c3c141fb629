"""The processes that run observers.

supervisor   starts hosts, hears their beats, replaces those that died or hang
process      the main function of a host
host         one step of a host: renew, look, take, report, give away
lives        what runs on the event loop
running      a life as a coroutine, a thread or a process
events       sends the signals of observers
notices      sends on_parked and on_moved
child        a life in a process of its own
tables       what a host asks of the tables
loading      imports the app in a fresh interpreter
capacity     how much a host may hold
"""
