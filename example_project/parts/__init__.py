"""The simulated remote parts: room agents, equipment and the calls' backend.

One process, real sockets: every room agent listens on a port of its own, so that one
which is down refuses connections as a dead machine does; equipment and backend stand
behind one port each. ``python -m example_project.parts --calls 200`` says where they
listen in one line of JSON on its standard output, and takes orders on a control port.
"""
