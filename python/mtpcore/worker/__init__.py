"""The worker: sees plan bytes and its own tensors, never the scheduler."""
