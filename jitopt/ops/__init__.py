"""jitopt."""
