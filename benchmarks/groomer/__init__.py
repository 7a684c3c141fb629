"""The groomer of the example against a lock on the room, on lines of any length."""
