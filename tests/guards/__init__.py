"""Each guard taken out, and the test that goes red. Run: python -m tests.guards."""
