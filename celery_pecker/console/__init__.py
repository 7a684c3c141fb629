"""What the command lines of pecker, sharding and throttle have in common.

entry_points   the command and the pages of throttle, unless their name is taken
namesake       which module `import throttle` is
"""
