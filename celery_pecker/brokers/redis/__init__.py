"""Redis: batches under a token in one script, and workers that outlive a restart."""
