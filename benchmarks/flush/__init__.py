"""Flushes: how many scopes a second, beside what the files alone cost, as scopes grow, and the requests of one."""
