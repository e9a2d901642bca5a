"""gaiad: a local-first daemon with a memory that does not forget and proves what it says."""

__version__ = "0.1.0"
