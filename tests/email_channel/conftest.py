"""The mail server of these tests."""

from __future__ import annotations

from tests.mail.conftest import dovecot

__all__ = ["dovecot"]
