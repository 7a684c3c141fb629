"""What the command lines of pecker, sharding and throttle have in common.

group             commands that are imported when they are called
context           app, settings, one way to print and one to fail
database_context  the same, and the tables of PostgreSQL
exits             how every command ends
instants          instants for programs, and for people
documents         what a command prints for programs
listing           rows of which nothing is cut on a narrow terminal
entry_points      the command and the pages of throttle, unless their name is taken
namesake          which module `import throttle` is
"""
