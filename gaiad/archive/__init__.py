"""The memory: packets in any dialect become pages that can be found in milliseconds and cited to the byte."""
