"""The intermediate representation: types, symbolic dimensions, graphs, their text form, verifier and interpreter."""
