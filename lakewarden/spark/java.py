"""Finds the Java that Spark needs, and reports in one line if it is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from lakewarden.errors import Unsupported

OLDEST = 17
"""Spark 4 runs on Java 17 and later."""


def require_java() -> None:
    """Raises Unsupported: there is no Java, or an older one than 17."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME is {home}, which holds no bin/java" if home else "there is no `java` on PATH"
        raise Unsupported(f"Spark needs Java {OLDEST} or later, and {where}: install one, or set JAVA_HOME")
    found = _major_version(java)
    if found < OLDEST:
        raise Unsupported(f"Spark needs Java {OLDEST} or later, and {java} is Java {found}: set JAVA_HOME to a newer one")


def _major_version(java: str) -> int:
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', answer)
    if version is None:
        raise Unsupported(f"{java} -version did not name a version: {answer.strip()[:200]!r}")
    return int(version[1])
