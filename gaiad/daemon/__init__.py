"""The composition root: builds every part in order and stops them in reverse."""
