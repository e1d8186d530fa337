"""Long runs: `python -m soak` against processes, `python -m soak.threads`, and wild inputs, `python -m soak.fuzz`."""
