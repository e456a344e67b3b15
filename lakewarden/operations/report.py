from lakewarden.report import *  # noqa
