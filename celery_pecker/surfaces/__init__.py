"""What people and programs look at, and through which they act.

===========  =========================================================================
``views``    each thing that people look at, described once
``cli``      renders views as commands
``console``  what the command lines of pecker, sharding and throttle have in common
``flower``   renders views as pages of Flower
``metrics``  renders views for Prometheus
``service``  one frame for the services that answer over HTTP
``intake``   records tasks over HTTP
===========  =========================================================================

Django's admin stands beside them, as an app that Django loads by its own name:
`celery_pecker.django`.
"""
