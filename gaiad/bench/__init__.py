"""Measurements: what the daemon and the library do on this machine, stated beside a baseline of the same run."""
