"""The daemon's API for a program on the same machine, standard library only."""
