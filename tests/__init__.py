"""Tests; the folders mirror the packages. Being a package puts the repository, and so `bench`, on the path."""
