"""Workers before a database, with a gate and without one."""
