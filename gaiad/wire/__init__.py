"""Every struct that crosses a socket or a package border. No logic."""
