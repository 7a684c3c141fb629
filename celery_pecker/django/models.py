"""Unmanaged models over our tables."""

from django.db import models

from celery_pecker.django import databases
from celery_pecker.outbox.model import Mode, mode_name

MODES = [(mode.value, mode_name(mode.value)) for mode in Mode]


class Table(models.Model):
    """A table of ours, made and changed by others; of most of them nothing is shown."""

    class Meta:
        """What all of them say."""

        abstract = True
        managed = False
        default_permissions: tuple[str, ...] = ()

    def __str__(self) -> str:
        return str(self.pk)


class OutboxMessage(Table):
    """A message that was recorded, until it is delivered or its task has succeeded."""

    id = models.BigIntegerField(primary_key=True)
    due_at = models.DateTimeField(null=True, help_text="empty: at once")
    mode = models.SmallIntegerField(choices=MODES)
    priority = models.SmallIntegerField(null=True)
    task = models.TextField()
    task_id = models.TextField()
    exchange = models.TextField()
    routing_key = models.TextField()
    content_type = models.TextField()
    content_encoding = models.TextField()
    headers = models.TextField()
    body = models.BinaryField()
    dedupe_key = models.TextField(null=True)  # noqa: DJ001  # null is not ''
    created_at = models.DateTimeField(verbose_name="recorded at")
    attempt = models.IntegerField(null=True, verbose_name="attempts")
    running = models.BooleanField(null=True)
    pushes = models.SmallIntegerField(null=True)
    held_at = models.DateTimeField(null=True)
    held_until = models.DateTimeField(null=True)
    parked_at = models.DateTimeField(null=True)
    last_error = models.TextField(null=True)  # noqa: DJ001

    class Meta(Table.Meta):
        """Made and changed by others."""

        db_table = databases.table("pecker_outbox")
        default_permissions = ("view",)
        verbose_name = "message of the outbox"
        verbose_name_plural = "messages of the outbox"

    def __str__(self) -> str:
        return f"{self.task} {self.id}"


class OutboxBatch(Table):
    """Messages that a relay has in hand; for the state of a message only."""

    batch = models.BigIntegerField(primary_key=True)
    ids = models.TextField()

    class Meta(Table.Meta):
        """Made and changed by relays."""

        db_table = databases.table("pecker_outbox_batches")


class OutboxDone(Table):
    """A task of mode until_done or local that has succeeded; the newest are kept."""

    number = models.BigIntegerField(primary_key=True)
    message = models.BigIntegerField(db_column="id")
    task = models.TextField()
    task_id = models.TextField()
    attempt = models.IntegerField(verbose_name="attempts")
    emergency = models.BooleanField(help_text="its emergency completion did it")
    created_at = models.DateTimeField(verbose_name="recorded at")
    done_at = models.DateTimeField()

    class Meta(Table.Meta):
        """Made by workers."""

        db_table = databases.table("pecker_outbox_done")
        default_permissions = ("view",)
        verbose_name = "task that was done"
        verbose_name_plural = "tasks that were done"

    def __str__(self) -> str:
        return f"{self.task} {self.message}"


class Schedule(Table):
    """A stored schedule; its hot row says when it ran, and whether it is paused."""

    name = models.TextField(primary_key=True)
    task = models.TextField()
    args = models.JSONField()
    kwargs = models.JSONField()
    options = models.JSONField()
    schedule = models.JSONField()
    policies = models.JSONField()
    run = models.TextField()
    starts_at = models.DateTimeField(null=True)
    ends_at = models.DateTimeField(null=True)
    once = models.BooleanField()
    once_at = models.DateTimeField(null=True)
    version = models.BigIntegerField()
    removed_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    changed_by = models.TextField()

    class Meta(Table.Meta):
        """Changed by `celery_pecker.schedules.stored.Schedules` only."""

        db_table = databases.table("pecker_schedules")
        default_permissions = ("add", "change", "delete", "view")


class ScheduleChange(Table):
    """A change of a schedule: user, time and new values; the last 100 per name."""

    id = models.BigIntegerField(primary_key=True)
    name = models.TextField(verbose_name="schedule")
    version = models.BigIntegerField(help_text="0: an entry of code")
    change = models.TextField()
    changed_at = models.DateTimeField()
    changed_by = models.TextField()
    definition = models.JSONField(null=True)
    other_name = models.TextField(null=True)  # noqa: DJ001  # null is not ''

    class Meta(Table.Meta):
        """Written by edits."""

        db_table = databases.table("pecker_schedule_changes")
        default_permissions = ("view",)
        verbose_name = "change of a schedule"
        verbose_name_plural = "changes of schedules"

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class HotRow(Table):
    """When an entry ran last; for stored schedules only."""

    name = models.TextField(primary_key=True)
    executed_at = models.DateTimeField()
    holder = models.UUIDField(null=True)
    paused = models.BooleanField()

    class Meta(Table.Meta):
        """Written by schedulers."""

        db_table = databases.table("pecker_tasks")


class Declaration(Table):
    """Until when code declares an entry; for stored schedules only."""

    name = models.TextField(primary_key=True)
    stored = models.BooleanField()
    declared_until = models.DateTimeField()

    class Meta(Table.Meta):
        """Written by schedulers."""

        db_table = databases.table("pecker_declarations")
