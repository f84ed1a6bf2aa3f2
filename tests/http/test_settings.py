"""The `gateway` section."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gateway.base.errors import HomebodyError
from gateway.settings.http_settings import GatewaySettings


def test_nothing_set_means_loopback_and_nobody_else() -> None:
    settings = GatewaySettings()
    assert (settings.bind, settings.port) == ("loopback", 18790)
    assert not settings.trusted_proxies + settings.allowed_hosts + settings.allowed_origins
    assert settings.auth.token is None


def test_the_keys_are_those_of_the_file() -> None:
    settings = GatewaySettings.model_validate(
        {
            "port": 0,
            "bind": "lan",
            "trustedProxies": ["10.0.0.2", "fd00::/8"],
            "allowedHosts": ["Home.Example", "[fd00::2]:8443"],
            "allowedOrigins": ["HTTPS://home.example:8443"],
            "auth": {"token": "k3XqvT0b9LrWm5ZsYd8HcN2p"},
        }
    )
    assert settings.trusted_proxies == ("10.0.0.2/32", "fd00::/8")
    assert settings.allowed_hosts == ("home.example", "[fd00::2]:8443")
    assert settings.allowed_origins == ("https://home.example:8443",)
    assert "k3Xq" not in repr(settings)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("trustedProxies", "*"),
        ("trustedProxies", "10.0.0.1/8"),
        ("trustedProxies", "proxy.example"),
        ("allowedHosts", "*"),
        ("allowedHosts", "*.example"),
        ("allowedHosts", "https://home.example"),
        ("allowedHosts", "home.example/path"),
        ("allowedHosts", "user@home.example"),
        ("allowedHosts", "home.example:"),
        ("allowedHosts", "home.example:99999"),
        ("allowedHosts", ""),
        ("allowedOrigins", "*"),
        ("allowedOrigins", "null"),
        ("allowedOrigins", "home.example"),
        ("allowedOrigins", "https://*.example"),
        ("allowedOrigins", "https://home.example/"),
        ("allowedOrigins", "file://home"),
    ],
)
def test_wildcards_and_half_addresses_are_refused(key: str, value: str) -> None:
    with pytest.raises(ValidationError, match=r"write it like|network"):
        GatewaySettings.model_validate({key: [value]})


@pytest.mark.parametrize("wrong", [{"port": -1}, {"port": 65536}, {"bind": "0.0.0.0"}, {"bind": "all"}])
def test_ports_and_binds_have_their_bounds(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        GatewaySettings.model_validate(wrong)


def test_the_environment_may_open_the_house_to_its_network() -> None:
    settings = GatewaySettings(allowed_hosts=("home.example",))
    opened = settings.under({"HOMEBODY_GATEWAY_BIND": "lan", "HOMEBODY_GATEWAY_PORT": "8080"})
    assert (opened.bind, opened.port, opened.allowed_hosts) == ("lan", 8080, ("home.example",))
    assert settings.under({"HOMEBODY_GATEWAY_BIND": " "}) == settings


@pytest.mark.parametrize(("name", "value"), [("HOMEBODY_GATEWAY_BIND", "0.0.0.0"), ("HOMEBODY_GATEWAY_PORT", "many")])
def test_a_wrong_variable_is_named(name: str, value: str) -> None:
    with pytest.raises(HomebodyError, match=name):
        GatewaySettings().under({name: value})
