"""The release, as commits name it."""

VERSION = "0.1.0"
