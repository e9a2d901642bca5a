"""Brings a GGUF here from a path, an address or a hub: resumed, checked, then named."""
