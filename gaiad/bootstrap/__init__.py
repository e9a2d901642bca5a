"""Set-up of a checkout: from a bare Python and a C++ compiler to a working .venv, before anything of gaiad can run.

It stands alone: standard library only, run by `make` as `python -I gaiad/bootstrap`, imported by nobody. Every step has
a key, a hash of all it depends on. A step runs when its key is not the one remembered in .setup/state.json, so a set-up
that was killed goes on where it stopped, and one with nothing to do costs a few milliseconds.
"""
