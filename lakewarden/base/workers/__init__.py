"""Child processes that work within bounds which the kernel keeps: started when needed, kept for the next call, replaced."""
