"""Runs the canaries under every means of confinement, as a program of its own, so that a test can do so as another user.

Prints one JSON object: for each case what the canaries saw. Needs no package beside the standard library.
"""

import asyncio
import json
import os
import shutil
import sys
import tempfile

from gateway.sandbox import landlock, restrict
from gateway.sandbox.bubblewrap import Bubblewrap
from gateway.sandbox.check import check, interpreter
from gateway.sandbox.places import Places
from gateway.sandbox.protocol import Limits

WAYS = ((False, "rw"), (True, "rw"), (False, "ro"), (True, "none"))


def means(tmp):
    places = Places(readable=interpreter()[1])
    version = restrict.landlock_version()

    def by_bubblewrap(**options):
        found = Bubblewrap(program=shutil.which("bwrap"), **{"version": (0, 8, 0), "landlock": version} | options)
        return lambda request: found.confine(request, places, Limits())

    def by_landlock(version):
        found = landlock.Landlock(version=version)
        return lambda request: found.confine(request, places, Limits(), tmp=tmp, processes=100_000)

    return {
        "bwrap": by_bubblewrap(),
        "bwrap without --disable-userns": by_bubblewrap(nested=False),
        "bwrap without /proc": by_bubblewrap(nested=False, proc=False),
        "bwrap 0.6 without Landlock": by_bubblewrap(nested=False, version=(0, 6, 1), landlock=0),
        "landlock": by_landlock(version),
        **({"landlock 3": by_landlock(landlock.OLDEST)} if version > landlock.OLDEST else {}),
    }


async def main():
    said = {}
    tmp = tempfile.mkdtemp()
    closed = json.loads(sys.argv[1])
    findings = await check(None, closed=closed)
    said["nothing"] = findings.seen or {"error": findings.error}
    for name, confine in means(tmp).items():
        for network, access in WAYS:

            async def plan(request, confine=confine):
                return confine(request)

            findings = await check(plan, network=network, access=access, closed=closed)
            said[f"{name}, {'network' if network else 'no network'}, {access}"] = findings.seen or {"error": findings.error}
    shutil.rmtree(tmp)
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    os.umask(0o077)
    asyncio.run(main())
