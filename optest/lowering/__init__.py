"""Lowering: the Triton kernels that op tests would launch, compiled for cards that are not here."""
