"""How commands run is said for all agents, for the defaults and for one agent; the nearest one counts."""

from __future__ import annotations

from gateway.settings.root import Settings


def test_the_nearest_setting_of_a_command_counts() -> None:
    settings = Settings.model_validate(
        {
            "tools": {"exec": {"timeoutSec": 60, "backgroundMs": 500, "pathPrepend": ["/opt/bin"]}},
            "agents": {
                "defaults": {"tools": {"exec": {"timeoutSec": 120, "maxJobs": 3}}},
                "list": [{"id": "main"}, {"id": "work", "tools": {"exec": {"timeoutSec": 240}}}],
            },
        }
    )
    main, work = settings.agent("main").exec, settings.agent("work").exec
    assert (main.timeout_sec, main.background_ms, main.max_jobs, main.path_prepend) == (120, 500, 3, ("/opt/bin",))
    assert (work.timeout_sec, work.background_ms, work.max_jobs) == (240, 500, 3)


def test_commands_have_defaults() -> None:
    usual = Settings().agent("main").exec
    assert (usual.timeout_sec, usual.background_ms, usual.notify_on_exit, usual.cleanup_ms) == (1800, 10_000, True, 1_800_000)
