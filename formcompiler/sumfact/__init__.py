"""Kernel builder: sum factorization, contractions along one direction at a time on products of intervals."""
