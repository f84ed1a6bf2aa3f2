"""The chat platforms that come with Homebody: their `PLATFORM` objects and their sections in the settings."""

from typing import Annotated, Final

from channels.common.deferred_section import DEFERRED
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

    telegram: Annotated[TelegramSettings, DEFERRED] = TelegramSettings.model_construct()
    """Telegram."""
    discord: Annotated[DiscordSettings, DEFERRED] = DiscordSettings.model_construct()
    """Discord."""
    slack: Annotated[SlackSettings, DEFERRED] = SlackSettings.model_construct()
    """Slack."""
    matrix: Annotated[MatrixSettings, DEFERRED] = MatrixSettings.model_construct()
    """Matrix."""
    email: Annotated[EmailSettings, DEFERRED] = EmailSettings.model_construct()
    """Email."""
    whatsapp: Annotated[WhatsAppSettings, DEFERRED] = WhatsAppSettings.model_construct()
    """WhatsApp."""
