"""Damaged models: each is answered or refused."""
