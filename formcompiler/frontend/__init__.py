"""The front end: UFL in, integrals of argument terms out. The only room that imports ufl, besides the oracle."""
