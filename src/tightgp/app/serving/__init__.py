"""Predictions over HTTP."""
