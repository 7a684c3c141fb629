"""What is measured: each module is one row, with one function `run`."""
