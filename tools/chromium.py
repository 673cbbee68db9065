"""A Chromium for the tests that drive the report's page: found, or installed where that asks nobody anything.

python tools/chromium.py    `make test` runs this; it never fails, and is done at once where a browser is there
"""

from __future__ import annotations

import os
import shutil
import subprocess

NAMES = ("chromium", "chromium-browser", "google-chrome")
HOW = "No Chromium was found: install one (Debian: apt-get install chromium) so that chromium or google-chrome is on the PATH."
ARGUMENTS = [
    "--no-sandbox",  # the tests may run as root, in a container, and open pages of their own making only
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
]
PACKAGES = ["chromium", "fonts-liberation"]
"""Without a font there would be no text to measure."""


def found() -> str | None:
    """Where a Chromium is, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def administrator() -> list[str] | None:
    """What makes a command the administrator's: nothing for root, sudo where it asks for no password; None where there is no way."""
    if os.geteuid() == 0:
        return []
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if shutil.which("sudo") and subprocess.run(["sudo", "-n", "true"], **quiet, check=False).returncode == 0:
        return ["sudo", "-n"]
    return None


def install() -> None:
    """By apt-get, without a question; whether it worked, `found` says."""
    words = administrator() if shutil.which("apt-get") else None
    if words is None:
        return
    print("Installing Chromium for the tests of the page ...", flush=True)
    for command in (["update"], ["install", "-y", "--no-install-recommends", *PACKAGES]):
        line = [*words, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", *command]
        subprocess.run(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)


if __name__ == "__main__":
    if not found():
        install()
    if not found():
        print(HOW)
