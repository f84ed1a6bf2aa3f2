"""Mail: bounded IMAP, SMTP, and what mails are made of. For the channel, and for the gateway's mail tool."""
