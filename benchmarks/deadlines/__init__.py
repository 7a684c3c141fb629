"""What keeps a deadline, and what that costs."""
