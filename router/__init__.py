"""The output router (GCP 7): which marked block may go to which channel."""
