"""Approvals: which acts of an agent need the owner's yes, and the questions that ask for it."""
