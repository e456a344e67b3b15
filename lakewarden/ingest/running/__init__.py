"""Runs a template over one object in a child process, within bounds that the kernel keeps."""
