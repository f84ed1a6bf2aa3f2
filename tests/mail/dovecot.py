"""A real dovecot on loopback, as any user, with mailboxes of its own and a certificate that the test made."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

PASSWORD = "correct-horse-7"
CONFIG = """
base_dir = {base}/run
state_dir = {base}/state
log_path = {base}/log
protocols = imap
listen = 127.0.0.1
instance_name = {name}
default_internal_user = {user}
default_login_user = {user}
default_internal_group = {group}
first_valid_uid = 0
ssl = {ssl}
{certificates}
disable_plaintext_auth = no
auth_failure_delay = 0
auth_mechanisms = plain login
mail_location = maildir:{base}/mail/%u
mail_uid = {uid}
mail_gid = {gid}
mailbox_list_index = yes
imap_idle_notify_interval = 1 min
service imap-login {{
  chroot =
  process_min_avail = 1
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = {tls_port}
    ssl = yes
  }}
}}
service anvil {{
  chroot =
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
service stats {{
  chroot =
}}
service imap {{
  process_limit = 50
}}
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={base}/home/%u
}}
namespace inbox {{
  inbox = yes
  mailbox Drafts {{
    special_use = \\Drafts
    auto = subscribe
  }}
  mailbox "Sent Messages" {{
    special_use = \\Sent
    auto = subscribe
  }}
  mailbox Archiv {{
    special_use = \\Archive
    auto = subscribe
  }}
  mailbox Trash {{
    special_use = \\Trash
    auto = subscribe
  }}
}}
"""


@dataclass
class Dovecot:
    """A running server. ``certificate`` is what clients check it with."""

    base: Path
    port: int
    tls_port: int
    certificate: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        give(self.base, *self.base.rglob("*"))
        command, other = ["dovecot", "-F", "-c", str(self.base / "dovecot.conf")], owner()
        as_other = {"user": other.pw_uid, "group": other.pw_gid, "extra_groups": []} if os.getuid() == 0 else {}
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **as_other)
        for _ in range(100):
            try:
                with socket.create_connection(("127.0.0.1", self.port), 5) as one:
                    one.settimeout(5)
                    if one.recv(64).startswith(b"* OK"):
                        return
            except OSError:
                if self.process.poll() is not None:
                    break
            time.sleep(0.1)
        self.stop()
        log = self.base / "log"
        raise RuntimeError(f"dovecot did not start: {log.read_text() if log.exists() else ''}")

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def maildir(self, user: str, folder: str = "") -> Path:
        place = self.base / "mail" / user / (f".{folder}" if folder else "")
        for name in ("cur", "new", "tmp"):
            if not (place / name).is_dir():
                (place / name).mkdir(parents=True)
                give(self.base / "mail", self.base / "mail" / user, place, place / name)
        return place

    def deliver(self, user: str, mail: bytes, *, folder: str = "", seen: bool = False, at: float | None = None) -> None:
        """Put a mail into a mailbox as a delivery agent does."""
        place, name = self.maildir(user, folder), f"{time.time_ns()}.{os.urandom(4).hex()}.test"
        made = place / "tmp" / name
        made.write_bytes(mail)
        if at is not None:
            os.utime(made, (at, at))
        give(made)
        made.rename(place / ("cur" if seen else "new") / (f"{name}:2,S" if seen else name))

    def stored(self, user: str, folder: str = "") -> list[bytes]:
        """Return the mails of a folder as they lie on the disk."""
        place = self.maildir(user, folder)
        return [path.read_bytes() for part in ("cur", "new") for path in sorted((place / part).iterdir())]


def free_port() -> int:
    """Return a port below those that the system hands out to outgoing connections."""
    for _ in range(200):
        port = 20_000 + int.from_bytes(os.urandom(2)) % 12_000
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no port is free")


def make(base: Path) -> Dovecot:
    """Write the configuration of a server in ``base``, which must have a short path."""
    if shutil.which("dovecot") is None:
        if os.environ.get("CI"):
            pytest.fail("dovecot is missing: apt-get install dovecot-imapd")
        pytest.skip("dovecot is not installed")
    certificate, key = base / "cert.pem", base / "key.pem"
    asked = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    subprocess.run([*asked.split(), "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    made = Dovecot(base, free_port(), free_port(), certificate)
    values = {
        "base": base,
        "name": f"test-{os.getpid()}-{base.name}",
        "user": owner().pw_name,
        "group": grp.getgrgid(owner().pw_gid).gr_name,
        "uid": owner().pw_uid,
        "gid": owner().pw_gid,
        "ssl": "yes",
        "certificates": f"ssl_cert = <{certificate}\nssl_key = <{key}",
        "port": made.port,
        "tls_port": made.tls_port,
        "password": PASSWORD,
    }
    (base / "dovecot.conf").write_text(CONFIG.format(**values))
    return made


def owner() -> pwd.struct_passwd:
    """Return whose the server is: dovecot does not read mail as root."""
    return pwd.getpwnam("nobody") if os.getuid() == 0 else pwd.getpwuid(os.getuid())


def give(*paths: Path) -> None:
    """Give files to the user of the server."""
    if os.getuid() == 0:
        for path in paths:
            os.chown(path, owner().pw_uid, owner().pw_gid)
