"""Batch jobs: embedding many passages at half the price, within hours."""
