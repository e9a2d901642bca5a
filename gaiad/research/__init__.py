"""The read path (GAM): question to parameters, search, reflect, refine, and an answer whose every quote is checked.

Everything but the loop is pure: values in, values out. The loop reaches the archive through `gaiad.base.ports.Archive`
alone.
"""
