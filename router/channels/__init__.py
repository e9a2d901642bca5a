"""Where routed blocks end: one module a channel, each with its own outside."""
