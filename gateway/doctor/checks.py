"""The checks of `homebody doctor`, in the order in which they are shown."""

from __future__ import annotations

from typing import Final

from gateway.doctor.backup_check import BACKUPS
from gateway.doctor.chat_channels import CHANNELS
from gateway.doctor.clock_check import CLOCK
from gateway.doctor.cluster_check import CLUSTER
from gateway.doctor.confinement_check import SANDBOX
from gateway.doctor.disk_space import DISK
from gateway.doctor.file_access import PERMISSIONS
from gateway.doctor.finding import Check
from gateway.doctor.foreign_packages import PACKAGES
from gateway.doctor.ledger_checks import CRASHES, LEDGER_CHECK
from gateway.doctor.log_checks import LOGS
from gateway.doctor.memory_index import MEMORY
from gateway.doctor.model_keys import KEYS
from gateway.doctor.network_checks import DNS, PORT
from gateway.doctor.process_checks import GATEWAY
from gateway.doctor.service_units import SERVICE
from gateway.doctor.settings_check import SETTINGS
from gateway.doctor.state_files import EXTRAS, STATE_FILES
from gateway.doctor.transcript_checks import TRANSCRIPTS
from gateway.doctor.workspace_check import WORKSPACES

CHECKS: Final[tuple[Check, ...]] = (
    SETTINGS,
    GATEWAY,
    CLUSTER,
    PERMISSIONS,
    DISK,
    STATE_FILES,
    LEDGER_CHECK,
    BACKUPS,
    TRANSCRIPTS,
    MEMORY,
    WORKSPACES,
    CRASHES,
    KEYS,
    CHANNELS,
    SANDBOX,
    PORT,
    DNS,
    CLOCK,
    EXTRAS,
    PACKAGES,
    SERVICE,
    LOGS,
)
QUICK: Final = tuple(check for check in CHECKS if check.quick)
"""Those that ask no other machine and take no time: `homebody status --deep`."""
