"""The chat platforms that come with Homebody: their `PLATFORM` objects and their sections in the settings."""

from __future__ import annotations

from typing import Final

from channels.common.shared_settings import Section
from channels.discord import PLATFORM as DISCORD
from channels.discord.settings import DiscordSettings
from channels.email import PLATFORM as EMAIL
from channels.email.settings import EmailSettings
from channels.matrix import PLATFORM as MATRIX
from channels.matrix.settings import MatrixSettings
from channels.platform import Platform
from channels.slack import PLATFORM as SLACK
from channels.slack.settings import SlackSettings
from channels.telegram import PLATFORM as TELEGRAM
from channels.telegram.settings import TelegramSettings
from channels.whatsapp import PLATFORM as WHATSAPP
from channels.whatsapp.settings import WhatsAppSettings

BUILT_IN: Final[tuple[Platform, ...]] = (TELEGRAM, DISCORD, SLACK, MATRIX, EMAIL, WHATSAPP)


class PlatformSettings(Section):
    """The sections of the platforms, each under the platform's name."""

    telegram: TelegramSettings = TelegramSettings.model_construct()
    """Telegram."""
    discord: DiscordSettings = DiscordSettings.model_construct()
    """Discord."""
    slack: SlackSettings = SlackSettings.model_construct()
    """Slack."""
    matrix: MatrixSettings = MatrixSettings.model_construct()
    """Matrix."""
    email: EmailSettings = EmailSettings.model_construct()
    """Email."""
    whatsapp: WhatsAppSettings = WhatsAppSettings.model_construct()
    """WhatsApp."""
