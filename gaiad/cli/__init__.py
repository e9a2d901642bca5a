"""The command line: one small file a verb, thin over `gaiad.client`. What is printed is made by pure functions."""
