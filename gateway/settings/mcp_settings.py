"""The section ``mcp``: servers of the Model Context Protocol whose tools agents may use."""

import re
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, StringConstraints, field_validator, model_validator

from agent.section import Section

SERVER_NAME: Final = r"^[a-z0-9][a-z0-9-]{0,31}$"
"""Lower-case letters, figures and -, so that ``mcp_<server>_<tool>`` can be taken apart again."""
_SECRET: Final = re.compile(r"(?i)(token|secret|passw|passphrase|pat$|key|auth|credential|cookie)")
"""Names of variables and headers whose values are secrets: they are masked, and kept out of logs and replies."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def _url(text: str) -> str:
    if re.fullmatch(r"https?://[^\s@#]+", text) is None:
        raise ValueError(f"{text!r} is no address of a server (write it like http://nas.lan:8080/mcp, without a user name)")
    return text


def _with_secrets(given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    return {
        name: SecretStr(str(value)) if _SECRET.search(str(name)) and isinstance(value, str | int) else value
        for name, value in given.items()
    }


Values = dict[str, SecretStr | str]
"""Values by name; those whose name says so are secrets."""


class McpServer(Section):
    """One server: a program (``command``) or an address (``url``)."""

    enabled: bool = True
    """Whether the server is used."""
    command: str | None = None
    """The program that is the server: a path, or a name that is searched in the usual folders."""
    args: tuple[str, ...] = ()
    """Its arguments."""
    env: Values = Field(default_factory=dict)
    """Its environment variables. It gets these, PATH, HOME, LANG and TMPDIR, and nothing else of the gateway's environment."""
    cwd: str | None = None
    """The folder that it starts in. Unset: an empty folder of its own."""
    sandbox: Literal["off", "bwrap"] = "off"
    """``bwrap``: the program is confined by bubblewrap: it sees the system's programs, its own folder and what is named here, and cannot start where that does not work. ``off``: it may do what your user may."""  # noqa: E501
    network: bool = False
    """With `sandbox: bwrap`: whether it may use the network."""
    read_paths: tuple[str, ...] = ()
    """With `sandbox: bwrap`: further files and folders that it may read. Its program and the files that `args` names may be read anyway."""
    write_paths: tuple[str, ...] = ()
    """With `sandbox: bwrap`: files and folders that it may read and write."""
    url: Annotated[str, AfterValidator(_url)] | None = None
    """The address of a server over HTTP (streamable HTTP). It may be on the own network; redirects to other hosts are refused."""
    headers: Values = Field(default_factory=dict)
    """Headers that are sent with every request to `url`."""
    bearer_token: SecretStr | None = None
    """A token that is sent to `url` as `Authorization: Bearer`."""
    agents: tuple[str, ...] = ()
    """The agents that may use it, by id, or `*` for all. Unset: the default agent alone."""
    allow: tuple[str, ...] = ("*",)
    """Names of its tools that may be used, as the server calls them, with `*`."""
    deny: tuple[str, ...] = ()
    """Names of its tools that may not be used, with `*`; this wins over `allow`."""
    timeout_sec: Annotated[float, Field(gt=0, le=3600)] = 60.0
    """Longest duration of one call, in seconds."""
    start_timeout_sec: Annotated[float, Field(gt=0, le=600)] = 60.0
    """How long the server may take to start and to say what it offers, in seconds."""
    idle_minutes: Annotated[float, Field(ge=0)] = 30.0
    """The server is stopped after so many minutes without a call, and started again with the next; 0: never."""
    trust_read_only: bool = False
    """Let tools that the server itself calls read-only run without a question when you ask for it. Only for servers that you trust."""

    _secrets = field_validator("env", "headers", mode="before")(_with_secrets)

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("a server has either a `command` or a `url`")
        if self.command is not None and (self.headers or self.bearer_token is not None):
            raise ValueError("`headers` and `bearerToken` are for a server with a `url`; a program gets its secrets in `env`")
        if self.url is not None and (self.args or self.env or self.cwd is not None or self.sandbox != "off"):
            raise ValueError("`args`, `env`, `cwd` and `sandbox` are for a server with a `command`")
        if self.sandbox == "off" and (self.network or self.read_paths or self.write_paths):
            raise ValueError(
                "`network`, `readPaths` and `writePaths` say what a confined program may use: set `sandbox: bwrap` too"
            )
        if odd := next((name for name in self.env if not _VARIABLE.fullmatch(name)), None):
            raise ValueError(f"{odd!r} is no name of an environment variable")
        if odd := next((name for name in self.headers if not _HEADER.fullmatch(name)), None):
            raise ValueError(f"{odd!r} is no name of a header")
        return self

    def serves(self, agent: str, default: str) -> bool:
        """Whether an agent may use it; ``default`` is the default agent."""
        return self.enabled and ("*" in self.agents or agent in (self.agents or (default,)))


class McpSettings(Section):
    """Servers of the Model Context Protocol. They need the extra `homebody[mcp]`."""

    servers: dict[Annotated[str, StringConstraints(pattern=SERVER_NAME)], McpServer] = Field(default_factory=dict)
    """The servers by name: lower-case letters, figures and `-`."""
    tool_budget_tokens: Annotated[int, Field(ge=0)] = 1500
    """When the tools of all servers take more tokens than this in each request, they are not sent but found by the agent with `tool_search`."""  # noqa: E501


def plain(value: SecretStr | str) -> str:
    """Return a value as the server gets it."""
    return value.get_secret_value() if isinstance(value, SecretStr) else value
