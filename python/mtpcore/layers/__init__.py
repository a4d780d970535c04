"""Layers of the supported model families, on plain tensors."""
