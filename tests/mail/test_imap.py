"""Reading a mailbox of a real dovecot."""

from __future__ import annotations

import base64
import imaplib
import random
import socketserver
import threading
from datetime import date
from typing import TYPE_CHECKING

import pytest

from channels.common.mail.imap_connection import ImapConnection
from channels.common.mail.stored_mail import SMALL, attachment, read_mail, read_mails, summary_of
from channels.errors import MailProblem
from gateway.mail.refusals import refused
from gateway.mail.search_query import criteria_of
from tests.mail.conftest import account_of
from tests.mail.letters import letter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.settings.mail_settings import MailAccount
    from tests.mail.conftest import Deliver
    from tests.mail.dovecot import Dovecot

TODAY = date(2026, 11, 24)


@pytest.fixture
def connection(account: MailAccount) -> Iterator[ImapConnection]:
    made = ImapConnection(account)
    made.begin()
    yield made
    made.close()


def subjects(connection: ImapConnection, query: str) -> list[str]:
    selected = connection.select("INBOX")
    found = connection.search(selected, criteria_of(query, TODAY), 50)
    return [summary_of(one).headers.subject for one in connection.summaries(found.uids)]


def test_folders_are_known_by_their_use(connection: ImapConnection) -> None:
    assert connection.folder_for("sent") == "Sent Messages"
    assert connection.folder_for("archive") == "Archiv"
    assert connection.named("archive") == "Archiv"
    with pytest.raises(MailProblem, match="no folder 'nowhere'"):
        connection.named("nowhere")


def test_a_list_shows_the_newest_first_and_marks_nothing_as_read(connection: ImapConnection, deliver: Deliver) -> None:
    for number in range(30):
        deliver(letter(subject=f"mail {number:02}"))
    selected = connection.select("INBOX")
    found = [summary_of(one) for one in connection.latest(selected, 10, 5)]
    uids = [one.uid for one in found]
    assert len(found) == 10
    assert uids == sorted(uids, reverse=True)
    assert uids[0] == selected.next_uid - 6
    assert all(one.unread for one in found)
    read_mail(connection, uids[0], ())
    assert connection.unread("INBOX") == (30, 30)


def test_search_is_done_by_the_server_and_finds_umlauts(connection: ImapConnection, deliver: Deliver) -> None:
    deliver(letter("Grüße aus Köln", subject="Rückfrage", sender="Jürgen <j@example.org>"))
    deliver(letter("nothing here", subject="other"))
    assert subjects(connection, "Köln") == ["Rückfrage"]
    assert subjects(connection, "subject:Rückfrage from:j@example.org") == ["Rückfrage"]
    assert subjects(connection, "-subject:Rückfrage") == ["other"]
    assert subjects(connection, 'is:unread subject:"other"') == ["other"]
    assert subjects(connection, 'subject:"no \\" quote"') == []


def test_the_text_of_a_nested_mail_is_found_and_its_attachment_saved(connection: ImapConnection, deliver: Deliver) -> None:
    data = bytes(range(256)) * 5000
    deliver(letter("plain words", html="<p>html words</p>", attached=(("r€port.pdf", data),)))
    selected = connection.select("INBOX")
    found = read_mail(connection, selected.next_uid - 1, ())
    assert [part.data.strip() for part in found.texts] == [b"plain words"]
    (part,) = found.attachments
    assert part.name == "r€port.pdf"
    assert attachment(connection, found.summary.uid, part, 2_000_000) == (data, False)
    with pytest.raises(MailProblem, match="at most 1,000,000"):
        attachment(connection, found.summary.uid, part, 1_000_000)


def test_html_is_read_where_there_is_no_other_text(connection: ImapConnection, deliver: Deliver) -> None:
    deliver(letter("   \n", html="<p>only here</p>"))
    selected = connection.select("INBOX")
    (text,) = read_mail(connection, selected.next_uid - 1, ()).texts
    assert text.media_type == "text/html"


@pytest.mark.parametrize(
    "mail",
    [
        b"",
        b"\n\n\n",
        b"Subject: =?utf-8?b?!!!?=\nFrom: <<>>,,,\nDate: yesterday\n\nbody",
        b"Content-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: multipart/mixed; boundary=x\n\n--x\n",
        b"Content-Type: text/plain; charset=nonsense\nContent-Transfer-Encoding: base64\n\n&&&&YWJj====",
        b"Subject: \xff\xfe\x00 raw\nContent-Type: text/plain; charset=utf-8\n\n\xff\xff",
        b"Content-Type: " + b"a" * 9000 + b"\n\nx",
        b"From: " + b"a@b.example, " * 5000 + b"\n\nx",
        b"Content-Type: message/rfc822\n\nContent-Type: message/rfc822\n\nSubject: inner\n\nx",
    ],
)
def test_whatever_is_wrong_with_a_mail_the_others_are_listed_and_it_is_read(
    connection: ImapConnection, deliver: Deliver, mail: bytes
) -> None:
    deliver(letter(subject="good"))
    deliver(mail)
    selected = connection.select("INBOX")
    found = [summary_of(one) for one in connection.latest(selected, 10, 0)]
    assert len(found) == 2
    assert "good" in {one.headers.subject for one in found}
    for one in found:
        read_mail(connection, one.uid, ())


def test_deeply_nested_parts_end_somewhere(connection: ImapConnection, deliver: Deliver) -> None:
    body = b"Content-Type: text/plain\n\ndeep"
    for depth in range(400):
        body = b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n%s\n--b%d--\n" % (depth, depth, body, depth)
    deliver(b"Subject: deep\n" + body)
    selected = connection.select("INBOX")
    found = read_mail(connection, selected.next_uid - 1, ())
    assert found.summary.headers.subject == "deep"


def test_a_mail_is_moved_and_flagged(connection: ImapConnection, deliver: Deliver) -> None:
    deliver(letter())
    uid = connection.select("INBOX", writing=True).next_uid - 1
    connection.flag(uid, "\\Seen", on=True)
    assert connection.unread("INBOX") == (1, 0)
    connection.move(uid, "Archiv")
    assert connection.select("INBOX").count == 0
    assert connection.select("Archiv").count == 1
    connection.select("INBOX")
    with pytest.raises(MailProblem, match="moved or deleted"):
        read_mail(connection, uid, ())


def test_tls_is_checked(dovecot: Dovecot, user: str) -> None:
    def connect(**server: object) -> None:
        ImapConnection(account_of(dovecot, user, imap={"host": "localhost", **server})).close()

    connect(port=dovecot.tls_port, security="tls", caFile=str(dovecot.certificate))
    connect(port=dovecot.port, security="starttls", caFile=str(dovecot.certificate))
    for server in ({"port": dovecot.tls_port, "security": "tls"}, {"port": dovecot.port, "security": "starttls"}):
        account = account_of(dovecot, user, imap={"host": "localhost", **server})
        with pytest.raises(OSError, match="certificate") as raised:
            ImapConnection(account)
        assert "is not accepted" in str(refused(raised.value, "home", account.imap))


def test_a_server_without_starttls_is_told_with_the_setting_that_mends_it(dovecot: Dovecot, user: str) -> None:
    class Plain(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"* OK ready\r\n")
            for line in self.rfile:
                self.wfile.write(b"* CAPABILITY IMAP4rev1\r\n" + line.split()[0] + b" OK done\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Plain) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        account = account_of(
            dovecot, user, imap={"host": "localhost", "port": server.server_address[1], "security": "starttls"}
        )
        with pytest.raises(imaplib.IMAP4.error, match="STARTTLS") as raised:
            ImapConnection(account)
        server.shutdown()
    told = refused(raised.value, "home", account.imap)
    assert "does not offer STARTTLS" in str(told)
    assert told.hint.endswith("homebody config set mail.accounts.home.imap.security tls")


def test_a_wrong_password_is_told_with_what_mends_it(dovecot: Dovecot, user: str) -> None:
    account = account_of(dovecot, user, password="wrong")
    with pytest.raises(Exception, match="AUTHENTICATIONFAILED") as raised:
        ImapConnection(account)
    told = refused(raised.value, "home", account.imap)
    assert "refused the login" in str(told)
    assert "app password" in told.hint


def test_base64_with_rubbish_in_it_is_read(connection: ImapConnection, deliver: Deliver) -> None:
    good = base64.b64encode("grüße".encode()).decode()
    deliver(
        f"Subject: x\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\n{good[:5]}!\n {good[5:]}".encode()
    )
    selected = connection.select("INBOX")
    (text,) = read_mail(connection, selected.next_uid - 1, ()).texts
    assert text.data.decode() == "grüße"


def test_a_mail_with_a_structure_that_cannot_be_read_is_listed_and_found_all_the_same(
    connection: ImapConnection, deliver: Deliver
) -> None:
    deliver(letter(subject="before"))
    head = b"From: Mallory <m@evil.example>\r\nSubject: deep\r\nMIME-Version: 1.0\r\n"
    parts = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n) for n in range(300))
    deliver(head + parts + b"Content-Type: text/plain\r\n\r\nhello\r\n")
    deliver(letter(subject="after"))
    found = [summary_of(one).headers.subject for one in connection.latest(connection.select("INBOX"), 10, 0)]
    assert found == ["after", "deep", "before"]
    assert subjects(connection, "subject:deep") == ["deep"]


@pytest.mark.cpu_seconds(60)
@pytest.mark.parametrize("size", [5_000_000, pytest.param(50_000_000, marks=pytest.mark.long)])
def test_an_attachment_of_many_mb_is_saved_whole(connection: ImapConnection, deliver: Deliver, size: int) -> None:
    data = random.Random(50).randbytes(size)
    deliver(letter(subject="film", attached=(("film.bin", data),)))
    connection.select("INBOX")
    (uid,) = connection.newer(1)
    (part,) = read_mail(connection, uid, ()).attachments
    assert attachment(connection, uid, part, size + 10_000_000) == (data, False)
    with pytest.raises(MailProblem, match=f"at most {size // 2:,} are saved"):
        attachment(connection, uid, part, size // 2)


def test_mails_are_read_together_as_each_alone(connection: ImapConnection, deliver: Deliver) -> None:
    both = b"Subject: b\r\nContent-Type: multipart/alternative; boundary=a\r\n\r\n"
    both += b"--a\r\n\r\nplain\r\n--a\r\nContent-Type: text/html\r\n\r\n<p>x\r\n--a--\r\n"
    odd = (b"", b"Content-Type: multipart/mixed; boundary=\r\n\r\n--\r\nx", both, b"Subject: 7\r\n\r\n7", b"\0\xff\xfe" * 50)
    for mail in (*odd, letter("long\n" * SMALL), letter("short"), *odd):
        deliver(mail)
    selected = connection.select("INBOX")
    uids = connection.newer(1)
    assert len(uids) == selected.count == 12
    together = read_mails(connection, [uids[0], 999, *uids[1:]], ())
    assert together == [read_mail(connection, uid, ()) for uid in uids]
    assert [mail.texts[0].data.strip() for mail in together if mail.summary.headers.subject in {"b", "7"}] == [
        b"plain",
        b"7",
    ] * 2
