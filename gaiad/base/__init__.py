"""What every room depends on: errors, clock, ids, settings, ports, logs. Knows none of them."""
