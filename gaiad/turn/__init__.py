"""One turn: what a person says becomes a packet, goes through the council, and its answer into the memory."""
