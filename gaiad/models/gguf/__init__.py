"""GGUF files without a model library: what they say of themselves, and how gaiad makes its own."""
