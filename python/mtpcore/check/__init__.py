"""The public proof of losslessness: the engine against an independent slow path.

Nothing here imports the worker, the kernels, the models or the layers. The slow path reads the
checkpoint itself and computes batch 1 over the whole text, without a cache, a page or a chunk.
"""
