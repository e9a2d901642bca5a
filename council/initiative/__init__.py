"""The initiative: thoughts for later, taken up one at a time while nobody waits. It proposes and never acts."""
