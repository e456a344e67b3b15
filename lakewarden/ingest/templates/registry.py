"""Finds templates by name: the installed packages' entry points of the group `lakewarden.templates`, ours among them."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from inspect import isfunction
from typing import Any

from lakewarden.errors import InvalidArgument, NotFound, Unsupported
from lakewarden.ingest.templates.template import Template

GROUP = "lakewarden.templates"


def template_names() -> list[str]:
    """Sorted. A broken one is among them: only its use is an error."""
    return sorted(entry_points(group=GROUP).names)


def template_named(name: str) -> Template[Any]:
    """
    Raises:
        NotFound: there is no such template; the message lists the known ones.
        InvalidArgument: two packages have a template of this name, or its entry point does not work.
        Unsupported: a library that it needs is not installed.
    """
    found = sorted(set(entry_points(group=GROUP, name=name)), key=lambda each: each.value)
    if not found:
        known = ", ".join(template_names()) or "none"
        raise NotFound(f"there is no template {name!r}; known are {known} (entry point group {GROUP})")
    if len(found) > 1:
        raise InvalidArgument(f"two packages have a template {name!r}: {found[0].value} and {found[1].value}; remove one")
    template = _loaded(found[0])
    for library in template.libraries:
        if find_spec(library.module) is None:
            raise Unsupported(
                f"template {name!r} needs the library {library.module}, which is not installed;"
                f" install lakewarden[{library.extra}]"
            )
    return template


def _loaded(entry: EntryPoint) -> Template[Any]:
    try:
        template = entry.load()
    except Exception as error:  # another package's code runs here
        raise InvalidArgument(f"the entry point of template {entry.name!r} ({entry.value}) fails: {error!r}") from error
    if isfunction(template):
        return Template.of_function(entry.name, template)
    if not isinstance(template, Template) or template.name != entry.name:
        raise InvalidArgument(
            f"the entry point {entry.name!r} ({entry.value}) should name a lakewarden Template with this name, or a function,"
            f" not {template!r:.100}"
        )
    return template
