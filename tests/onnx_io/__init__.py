"""Reader and writer."""
