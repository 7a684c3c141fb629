"""Ours and the peers', measured side by side in one run: ``make bench``.

`python -m benchmarks` runs all rows, `python -m benchmarks rate --entries 1000` one of
them, `python -m benchmarks publish` puts the figures and charts into the documentation.
Each row (rows/) writes one JSON file; tables and charts are made from those alone.
"""
