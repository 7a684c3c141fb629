"""Meetings that a media server's freeze has split are brought together.

A conference lives on a media server. The server looks dead, a new one is made, the old
one wakes up: half of the meeting is on each. The groomer stands in the path of offers,
hears the servers' reports, and knows which *room session* is a room's current one.

Nouns
    *room*           a conference; its *epoch* counts its room sessions
    *room session*   one incarnation of the room on one media server
    *peer*           one entering of somebody; who comes back is another peer
    *report*         FIRST_OFFER, CONNECTED, DISCONNECTED of a peer, by a media server:
                     lost, repeated, late, out of order
    *invitation*     "come to this session", once for each peer and epoch
    *life*           an observer of a media server on one host
    *gap*            the time between the last look of a life and the first of the next

Modules
    states      what a report is, and which state a row says; pure
    queries     the statements: join, offer, apply, switch, sweep, archive
    app, tasks  a watch and a sweep each second, invitations through an outbox
    watchers    an observer for each media server
    service     stands in the path of offers and takes the reports, in batches
    media       a simulated media server, which freezes, wakes and lies
    peers       simulated peers, who know themselves where they are
    wire        JSON lines over TCP
    play        200 calls on three media servers; one freezes for 8 s and wakes
    hosts       the processes that run observers: one is killed, one drained
    lives       gaps between the lives of observers; pure
    picture     a line for each call, red while it is split; a strip for each observer
    story       the report

``python -m example_project.groomer`` or ``make demo ACT=groomer`` plays it alone;
``make demo`` plays it at its end.
"""
