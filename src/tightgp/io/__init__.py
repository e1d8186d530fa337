"""Model files and checkpoints: safetensors files that cannot run code."""
