"""The worker's side: everything that runs in a model's child process, where llama.cpp is."""
