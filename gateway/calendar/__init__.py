"""Calendars (CalDAV and iCalendar feeds) and address books (CardDAV) of the owner."""
