"""All models of a daemon: which role has which, and which are in memory."""
