"""Context Memory (CONTEXT): states, outputs and reviews of agents, kept with their history in the tenant's file."""
