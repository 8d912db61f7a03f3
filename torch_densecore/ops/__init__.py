"""Declarations of the ops by family; file names follow ATen's. `registry.load` imports every module here."""
