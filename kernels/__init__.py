"""Tensor operations of mtpcore: one folder an op, each with a slow, plain reference.

The references are written in torch alone, run on any device and are the CPU backend.
"""
