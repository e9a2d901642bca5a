"""The output router (GCP 7): a model's marked output, read as it streams, and which block may go to which channel."""

from router.blocks import MarkedBlock, MarkedOutput, read_blocks

__all__ = ["MarkedBlock", "MarkedOutput", "read_blocks"]
