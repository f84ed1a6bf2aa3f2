"""homebody setup email, as a person sees it, with real servers: five answers, one code, and the first mail is answered."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from tests.email_channel.email_stage import AGENT, ANNA, SIGNER, EmailStage
from tests.email_channel.test_email_in_house import mails_to, until
from tests.mail.dovecot import PASSWORD
from tests.setup.conftest import home, window
from tests.setup.person import Home, answered
from tests.stories.terminal import ENTER, Terminal

if TYPE_CHECKING:
    from tests.mail.dovecot import Dovecot

__all__ = ["home", "window"]


async def test_from_an_empty_mailbox_to_the_first_answer(home: Home, window: Terminal, dovecot: Dovecot) -> None:
    async with EmailStage(dovecot).open() as stage:
        await stage.say("a mail from before")
        home.state.mkdir(mode=0o700)
        plain = "host: 127.0.0.1, security: none"
        (home.state / "homebody.yaml").write_text(
            f"gateway: {{port: 0}}\nchannels: {{email: {{imap: {{{plain}, port: {stage.relay.port}}}, "
            f"smtp: {{{plain}, port: {stage.smtp_port}}}, fromAddress: {AGENT}}}}}\n"
        )
        await window.open(home, "setup", "email")
        at = await answered(window, "Address of the mailbox", stage.user)
        at = await answered(window, "IMAP server", "", since=at)
        at = await answered(window, "SMTP server", "", since=at)
        at = await answered(window, "Password", "wrong", since=at)
        assert await window.until("refused the login", since=at), window.shown[-1500:]
        at = await answered(window, "Address of the mailbox", "", since=at)
        at = await answered(window, "IMAP server", "", since=at)
        at = await answered(window, "SMTP server", "", since=at)
        at = await answered(window, "Password", PASSWORD, since=at)
        assert await window.until(f"The bot is {AGENT}", since=at), window.shown[-1500:]
        at = await answered(window, "Name by which your server signs its checks", "", since=at)
        assert await window.until("Do it?", since=at), window.shown[-1500:]
        window.press(ENTER)
        assert await window.until("Waiting for you", since=at), window.shown[-1500:]
        shown_code = re.search(r"\n\s+([A-Z2-9]{16})\s", window.shown)
        assert shown_code, window.shown[-1500:]
        await stage.deliver(stage.mail(shown_code[1], checks="", sender="eve@evil.example"))
        await stage.deliver(stage.mail(shown_code[1]))
        assert await window.until(f"{ANNA}) is the owner", since=at), window.shown[-1500:]
        assert await window.until_ended(60) == 0
        assert PASSWORD not in window.shown
        code, _, err = await home.run("start")
        assert code == 0, err
        await stage.say("remember that the spare key is under the blue pot")
        await until(lambda: any("Noted in" in mail for mail in mails_to(stage, ANNA)))
        _, out, _ = await home.run("pairing", "list", "--json")
        [owner] = json.loads(out)["approved"]
        assert (owner["sender"], owner["role"]) == (ANNA, "owner")
        assert SIGNER in (home.state / "homebody.yaml").read_text()


async def test_yes_takes_the_mailbox_of_the_environment(home: Home, dovecot: Dovecot) -> None:
    async with EmailStage(dovecot).open() as stage:
        home.state.mkdir(mode=0o700)
        plain = "host: 127.0.0.1, security: none"
        (home.state / "homebody.yaml").write_text(
            f"gateway: {{port: 0}}\nchannels: {{email: {{imap: {{{plain}, port: {stage.relay.port}}}, "
            f"smtp: {{{plain}, port: {stage.smtp_port}}}, fromAddress: {AGENT}}}}}\n"
        )
        home.more |= {"EMAIL_IMAP_HOST": "127.0.0.1", "EMAIL_PASSWORD": PASSWORD}
        code, _, err = await home.run("setup", "email", "--yes", "--dry-run")
        assert code == 2
        assert "Set EMAIL_ADDRESS, then" in err
        home.more["EMAIL_ADDRESS"] = stage.user
        code, out, err = await home.run("setup", "email", "--yes", "--dry-run")
        assert code == 0, err
        assert f"The bot is {AGENT}" in out
        assert PASSWORD not in out


async def test_yes_takes_the_password_where_the_settings_hold_the_rest(home: Home, dovecot: Dovecot) -> None:
    async with EmailStage(dovecot).open() as stage:
        home.state.mkdir(mode=0o700)
        plain = "host: 127.0.0.1, security: none"
        (home.state / "homebody.yaml").write_text(
            f"gateway: {{port: 0}}\nchannels: {{email: {{imap: {{{plain}, port: {stage.relay.port}}}, "
            f"smtp: {{{plain}, port: {stage.smtp_port}}}, user: {stage.user}, fromAddress: {AGENT}}}}}\n"
        )
        home.more["EMAIL_PASSWORD"] = PASSWORD
        code, out, err = await home.run("setup", "email", "--yes", "--dry-run")
        assert code == 0, err
        assert f"The bot is {AGENT}" in out


async def test_without_a_terminal_the_commands_are_printed(home: Home) -> None:
    code, out, _ = await home.run("setup")
    assert code == 0
    assert "homebody config set channels.email.imap.host VALUE" in out
    code, out, _ = await home.run("setup", "email")
    assert code == 0
    assert "homebody config set channels.email.authServer VALUE" in out
    assert "telegram" not in out
    code, _, err = await home.run("setup", "email", "--yes")
    assert code != 0
    assert "EMAIL_PASSWORD" in err
