"""The council (GCP 8): how Prime, Lite and CodeMind decide together. Pure rules live here first."""
