"""Passes that give kernels lanes: W values of one instruction side by side in a vector register."""
