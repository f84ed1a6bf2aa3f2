"""Finds out what is wrong with an installation, and mends what is safe to mend: `homebody doctor`, `status --deep`, `security audit`."""
