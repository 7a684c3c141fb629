"""What became of settings that there once were: each is refused with these words."""

RENAMED = {
    "pecker_alarms_interval": "is gone: schedulers look every 10 s, or every `after`"
    " seconds of a rule that has less",
    "pecker_clock_skew": "is gone: `expires` is the deadline + 2 s; let NTP set the"
    " clocks of all hosts",
    "pecker_clock_slack": "is gone: a row may lie 5 s ahead of the database's clock",
    "pecker_observers_history": "is gone: 10,000 events are kept",
    "pecker_intake_token": "is gone: give it to the intake, as $PECKER_INTAKE_TOKEN",
    "pecker_metrics_address": "is gone: pecker_metrics is an address and a port,"
    " '127.0.0.1:9808'",
    "pecker_metrics_port": "was renamed pecker_metrics, which is an address and a port,"
    " '127.0.0.1:9808'",
    "pecker_observers": "is gone: pecker_worker is a set, {'observers'}",
    "pecker_observers_max_memory_per_host": "was renamed pecker_observers_memory_bytes,"
    " which counts bytes, not kilobytes",
    "pecker_observers_start_rate": "is gone: a host begins at most 2,000 observers in a"
    " second",
    "pecker_outbox_backoff_most": "is gone: a hold grows to an hour at most",
    "pecker_outbox_hold": "was renamed pecker_outbox_lease",
    "pecker_outbox_interval": "is gone: relays look every 0.05 s",
    "pecker_outbox_limit": "was renamed pecker_outbox_message_bytes",
    "pecker_outbox_local": "is gone: pecker_worker is a set, {'outbox'}",
    "pecker_outbox_log": "was renamed pecker_outbox_history",
    "pecker_redis_guard": "is gone: the guard is there where the broker is Redis",
    "sharding_flush": "is gone: a running shard writes its cursor every 0.5 s",
    "sharding_gate": "is gone: where there are throttle_limits, tasks with throttle="
    " are asked of throttle's gate; another gate is the option gate= of a task",
    "sharding_inline_limit": "was renamed sharding_inline_bytes",
    "sharding_plan_limit": "is gone: a plan may have 1 GB; give a Source",
    "sharding_resend": "is gone: a message that was not taken is sent again after 10 s",
    "sharding_slice": "is gone: a ticket runs shards for 1 s and passes itself on",
    "sharding_sweep": "is gone: the sweeper comes every second",
    "sharding_sweeper": "is gone: the sweeper is always in the app's schedule",
    "sharding_unlisted_sources": "is gone: a Source is read if its caller listed it",
    "throttle_hold_messages": "is gone: throttle_hold_bytes bounds messages, too, one"
    " for each 3,200 bytes",
    "throttle_hold_seconds": "was renamed throttle_hold_timeout",
    "throttle_parking": "is gone: parking queues are called throttle_prefix, 'parking',"
    " the database and the queue, with dots between",
    "throttle_prior": "is gone: a task is thought to cost 10 operations before one of"
    " its kind has run",
    "throttle_queues": "is gone: throttle_limits has it, {'main': {'operations': 5000,"
    " 'queues': ['reports']}}",
}
"""By old names, each beginning with a verb. In the order of the alphabet."""
