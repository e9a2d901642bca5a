"""Bytes to packet to pages to rows: pure once the file is read, whatever the dialect."""
