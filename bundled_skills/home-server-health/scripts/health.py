"""Print facts about this machine: disks, memory, load, age of backups, waiting updates. It only reads.

Usage: health.py [BACKUP FOLDER]... A line that begins with "!" needs attention. The exit code is 0 in any case.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

FULL = 90  # per cent of a disk
LOW = 10  # per cent of memory that is available
OLD = 2  # days since the last backup
MOST_FILES = 100_000
REAL = ("ext", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "vfat", "exfat", "ntfs", "overlay", "nfs", "cifs", "fuse")


def say(text, bad=False):
    print(f"{'!' if bad else ' '} {text}")


def size(count):
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} TB"


def disks():
    """Every file system that can be seen from here, once."""
    seen = set()
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        before, _, after = line.partition(" - ")
        words = before.split()
        place, number, kind = words[4].replace("\\040", " "), words[2], after.split()[0]
        if number in seen or not kind.startswith(REAL):
            continue
        try:
            stat = os.statvfs(place)
        except OSError:
            continue
        if not stat.f_blocks:
            continue
        seen.add(number)
        yield place, stat
    if not seen:  # /proc is not there
        yield "/", os.statvfs("/usr")


def report_disks():
    for place, stat in disks():
        usable = stat.f_blocks - stat.f_bfree + stat.f_bavail
        used = 100 * (stat.f_blocks - stat.f_bfree) / max(1, usable)
        files = 100 * (stat.f_files - stat.f_ffree) / stat.f_files if stat.f_files else 0
        free = size(stat.f_bavail * stat.f_frsize)
        say(f"disk {place}: {used:.0f} % used, {free} free", used >= FULL)
        if files >= FULL:
            say(f"disk {place}: {files:.0f} % of its files are used", bad=True)


def report_memory():
    try:
        rows = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        amounts = {name: int(value.split()[0]) * 1024 for name, value in rows.items()}
    except (OSError, ValueError):
        say("memory: cannot be seen from here")
        return
    share = 100 * amounts["MemAvailable"] / amounts["MemTotal"]
    say(f"memory: {size(amounts['MemAvailable'])} of {size(amounts['MemTotal'])} available", share < LOW)
    if amounts.get("SwapTotal"):
        say(f"swap: {size(amounts['SwapTotal'] - amounts['SwapFree'])} of {size(amounts['SwapTotal'])} used")


def report_load():
    load, processors = os.getloadavg(), os.cpu_count() or 1
    say(f"load: {load[0]:.2f} {load[1]:.2f} {load[2]:.2f} on {processors} processors", load[2] > 2 * processors)
    try:
        days = float(Path("/proc/uptime").read_text().split()[0]) / 86400
        say(f"running for {days:.1f} days")
    except (OSError, ValueError):
        pass


def report_backup(folder):
    """Say when anything in a folder was last written."""
    newest, count = 0.0, 0
    for top, _, names in os.walk(folder):
        for name in names:
            try:
                newest = max(newest, os.lstat(os.path.join(top, name)).st_mtime)
            except OSError:
                continue
            count += 1
        if count > MOST_FILES:
            break
    if not count:
        there = os.path.isdir(folder)
        say(f"backup {folder}: {'is empty' if there else 'cannot be seen from here (tools.exec.readPaths)'}", there)
        return
    days = (time.time() - newest) / 86400
    say(f"backup {folder}: last written {days:.1f} days ago, {count:,}{'+' if count > MOST_FILES else ''} files", days > OLD)


def report_updates():
    needed = ("/var/lib/dpkg/status", "/var/lib/apt/lists", "/etc/apt")
    hidden = [path for path in needed if not os.access(path, os.R_OK)]
    if shutil.which("apt-get") is None or hidden:
        why = f"{', '.join(hidden)} cannot be seen from here (tools.exec.readPaths)" if hidden else "there is no apt-get"
        say(f"updates: not known, {why}")
    else:
        command = [
            "apt-get",
            "--simulate",
            "-o",
            "Debug::NoLocking=1",
            "-o",
            "Dir::Cache=/tmp",
            "-o",
            "APT::Sandbox::User=",
            "upgrade",
        ]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            say(f"updates: not known, {error}")
            return
        waiting = [line for line in ran.stdout.splitlines() if line.startswith("Inst ")]
        security = sum("security" in line.lower() for line in waiting)
        lists = max((one.stat().st_mtime for one in Path("/var/lib/apt/lists").iterdir()), default=0)
        known = f"lists of {(time.time() - lists) / 86400:.0f} days ago"
        if ran.returncode:
            say(f"updates: not known, {ran.stderr.strip().splitlines()[-1:] or ['apt-get failed']}")
        else:
            say(f"updates: {len(waiting)} waiting, {security} for security ({known})", bool(security))
    if os.path.exists("/run/reboot-required") or os.path.exists("/var/run/reboot-required"):
        say("a restart is pending", bad=True)


def main():
    report_disks()
    report_memory()
    report_load()
    for folder in sys.argv[1:]:
        report_backup(folder)
    report_updates()


if __name__ == "__main__":
    main()
