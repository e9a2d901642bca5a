"""Models behind ports: every GGUF lives in a supervised child process, so that a bad file cannot end the daemon."""
