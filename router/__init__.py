"""The output router (GCP 7): which block of a model's marked output may go to which channel, and how it is redacted."""
