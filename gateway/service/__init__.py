"""The gateway as a service of this machine: systemd or launchd, in the background, and removing all of it."""
