"""The option `--resume` of the commands that write each thing once."""

from __future__ import annotations

import typer

from lakewarden.log.once import Resume, check_resume

RESUME = typer.Option(
    None, "--resume", help="Where a repair left uncertain what was taken: repeat takes it again, skip counts it as taken."
)


def resume_of(text: str | None) -> Resume | None:
    """Raises:
    InvalidArgument: it is no way to go on.
    """
    return None if text is None else check_resume(text)
