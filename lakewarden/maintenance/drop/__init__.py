"""Drop: removes a table with its data. Its options."""

from lakewarden.maintenance.options import Options

OPTIONS = Options
