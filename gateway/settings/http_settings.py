"""The section ``gateway``: the HTTP API's addresses and token, and what is served beside it."""

import ipaddress
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, ValidationError

from agent.section import Section
from gateway.base.api_token import token_from_settings
from gateway.base.errors import HomebodyError

BIND_VARIABLE = "HOMEBODY_GATEWAY_BIND"
PORT_VARIABLE = "HOMEBODY_GATEWAY_PORT"
ANOTHER_PORT = (
    "Stop the program that uses it, or give this gateway another port where it starts: export HOMEBODY_GATEWAY_PORT=18791"
)
"""What helps where the settings are those of other gateways, too."""


def _network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError as error:
        raise ValueError(f"not an address or network: {text!r} (write it like 10.0.0.2 or 10.0.0.0/24)") from error


def _host(text: str) -> str:
    try:
        parts = urlsplit(f"//{text}")
        plain = parts.netloc == text and parts.hostname and parts.username is None
        plain = plain and (parts.port is None or parts.port > 0) and not text.endswith(":")
    except ValueError:
        plain = False
    if not plain or "*" in text:
        raise ValueError(f"not a host: {text!r} (write it like home.example or home.example:8443; no wildcards)")
    return text.lower()


def _origin(text: str) -> str:
    scheme, separator, host = text.partition("://")
    if scheme.lower() not in {"http", "https"} or not separator:
        raise ValueError(f"not an origin: {text!r} (write it like https://home.example; no wildcards)")
    return f"{scheme.lower()}://{_host(host)}"


def _good_token(token: SecretStr) -> SecretStr:
    try:
        token_from_settings(token.get_secret_value())
    except HomebodyError as error:
        raise ValueError(f"{error} ({error.hint})") from error
    return token


class GatewayAuth(Section):
    """Authentication of HTTP requests."""

    token: Annotated[SecretStr, AfterValidator(_good_token)] | None = None
    """Bearer token for the HTTP API, at least 24 characters. Unset: one is generated at the first start in `state/gateway.token`."""


class OpenAiApiSettings(Section):
    """The API for programs that speak OpenAI's chat completions."""

    enabled: bool = False
    """Whether `/v1/chat/completions` and `/v1/models` are served."""


class MetricsSettings(Section):
    """Measurements for Prometheus."""

    enabled: bool = False
    """Whether `/metrics` is served."""
    access: Literal["token", "loopback"] = "token"
    """Who may read it: `token`, who has the gateway's token; `loopback`, any program on this machine, too."""


class PageSettings(Section):
    """The page in the browser."""

    enabled: bool | None = None
    """Whether the page is served. Unset: yes if the API listens on this machine only (`gateway.bind: loopback`)."""


def _collector(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise ValueError(f"not an address: {text!r} (write it like http://127.0.0.1:4318)")
    return text


class TracingSettings(Section):
    """Traces for OpenTelemetry. They need the extra `homebody[tracing]`."""

    enabled: bool = False
    """Whether turns, model calls, tools and sends are traced: ids and numbers, never texts."""
    endpoint: Annotated[str, AfterValidator(_collector)] | None = None
    """Address of the collector (OTLP over HTTP), such as `http://127.0.0.1:4318`. Unset: the variables `OTEL_EXPORTER_OTLP_...`."""


_HOT: dict[str, Any] = {"reload": "hot"}


class GatewaySettings(Section):
    """The HTTP API. All paths need the token, except the two health checks."""

    port: int = Field(default=18790, ge=0, le=65535)
    """TCP port of the HTTP API. 0: any free port."""

    bind: Literal["loopback", "lan"] = "loopback"
    """`loopback`: listen on 127.0.0.1 and ::1 only. `lan`: listen on all network interfaces, which containers need."""

    trusted_proxies: tuple[Annotated[str, AfterValidator(_network)], ...] = ()
    """Addresses or networks of reverse proxies. Requests with forwarding headers from other addresses are rejected."""

    allowed_hosts: tuple[Annotated[str, AfterValidator(_host)], ...] = ()
    """Host names accepted in requests besides localhost, 127.0.0.1 and ::1, such as `home.example`."""

    allowed_origins: tuple[Annotated[str, AfterValidator(_origin)], ...] = ()
    """Web origins that may call the API from a browser, such as `https://home.example`. Default: none."""

    auth: GatewayAuth = Field(default=GatewayAuth.model_construct(), json_schema_extra=_HOT)
    """Authentication of HTTP requests."""

    openai: OpenAiApiSettings = Field(default=OpenAiApiSettings.model_construct(), json_schema_extra=_HOT)
    """The API for programs that speak OpenAI's chat completions."""

    page: PageSettings = Field(default=PageSettings.model_construct(), json_schema_extra=_HOT)
    """The page in the browser."""

    metrics: MetricsSettings = Field(default=MetricsSettings.model_construct(), json_schema_extra=_HOT)
    """Measurements for Prometheus."""

    tracing: TracingSettings = TracingSettings.model_construct()
    """Traces for OpenTelemetry."""

    @property
    def serves_page(self) -> bool:
        """Whether the page in the browser is served."""
        return self.page.enabled if self.page.enabled is not None else self.bind == "loopback"

    def under(self, environment: Mapping[str, str]) -> "GatewaySettings":
        """Return these settings with overrides from the environment, for containers, where the file may not exist yet.

        Reads `HOMEBODY_GATEWAY_BIND` and `HOMEBODY_GATEWAY_PORT`. Raises HomebodyError that names the variable.
        """
        settings = self
        for key, variable in (("bind", BIND_VARIABLE), ("port", PORT_VARIABLE)):
            value = environment.get(variable, "").strip()
            if value:
                settings = settings._overridden(key, variable, value)
        return settings

    def _overridden(self, key: str, variable: str, value: str) -> "GatewaySettings":
        try:
            return GatewaySettings.model_validate({**dict(self), key: value})
        except ValidationError as error:
            reason = error.errors(include_url=False, include_input=False)[0]["msg"]
            hint = f"Set {variable} to a valid value of gateway.{key}, or unset it."
            raise HomebodyError(f"{value!r} is invalid: {reason}", where=variable, hint=hint) from error
