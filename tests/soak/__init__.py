"""The suite again and again."""
