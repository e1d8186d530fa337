"""Numerical building blocks: factorisations, triangular products, work in chunks, device settings."""
