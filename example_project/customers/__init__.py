"""A customer and the customer's schedule are one commit, and an alarm calls for help.

    app      the Celery app: the task `remind`, and a rule for what falls silent
    play     a customer is added, changed and not added; a forgotten transaction holds a
             customer's schedule until an alarm rings
    story    the report: what each edit took, and how often the alarm rang

``python -m example_project.customers`` or ``make demo ACT=customers`` plays it alone;
``make demo`` plays it after the story.
"""
