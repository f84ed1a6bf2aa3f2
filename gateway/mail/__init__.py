"""Mailboxes: reading by IMAP, sending by SMTP exactly once, and waiting for new mail."""
