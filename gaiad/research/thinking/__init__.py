"""The researcher's steps that a model may take (JIT, GAM 4 and 5): plan, reflection, synthesis; else by rules."""
