"""The old place of what templates of others import: `lakewarden.pipelines.templates` is `lakewarden.ingest.templates`."""

import sys

from lakewarden.ingest import templates
from lakewarden.ingest.templates import object_file, template

# The import system looks here once more after it has imported a module's parent, as for `os.path`: so the old names are these
# very modules, and an `ObjectFile` of an old template is an `ObjectFile` of ours.
for _name, _module in (("templates", templates), ("templates.object_file", object_file), ("templates.template", template)):
    sys.modules[f"{__name__}.{_name}"] = _module
