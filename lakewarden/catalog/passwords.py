"""Passwords: the rules for new ones, and their hashes. No message and no log ever holds one."""

from __future__ import annotations

from lakewarden.errors import InvalidArgument

MIN_LENGTH = 8
MAX_LENGTH = 72
REDACTED = "[REDACTED]"
"""What stands for a password wherever a statement is kept."""

_MOST_USED = """
    password password1 password12 password123 password1234 passw0rd p@ssw0rd p@ssword passwort 12345678 123456789 1234567890
    0123456789 11111111 00000000 88888888 87654321 987654321 9876543210 123123123 12341234 12344321 11223344 1q2w3e4r 1qaz2wsx
    1q2w3e4r5t qwertyui qwertyuiop qwerty12 qwerty123 qwerty1234 qwer1234 asdfghjk asdfghjkl asdf1234 zxcvbnm1 zaq12wsx abc12345
    abcd1234 abcdefgh abcdefg1 a1b2c3d4 aa123456 a1234567 iloveyou iloveyou1 sunshine princess football football1 baseball
    basketball superman batman123 trustno1 whatever starwars computer internet letmein1 letmein123 welcome1 welcome123 admin123
    admin1234 administrator changeme changeme1 changeme123 default1 secret123 secretsecret test1234 testtest testing123 guest123
    root1234 rootroot master123 shadow123 dragon123 monkey123 michael1 jennifer charlie1 liverpool chocolate butterfly
    metallica corvette mercedes midnight victoria samantha pokemon1 hello123 hellohello freedom1 qazwsxedc
"""
_COMMON = frozenset(_MOST_USED.split())
"""Of eight characters or more."""


def check_password(password: str) -> str:
    """Raises InvalidArgument: it is too short, too long, or among the most common ones."""
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        raise InvalidArgument(f"a password has {MIN_LENGTH} to {MAX_LENGTH} characters, and this one has {len(password)}")
    if password.lower() in _COMMON:
        raise InvalidArgument("this password is among the most common ones; choose another")
    return password


def hash_password(password: str) -> str:
    """Its argon2id hash, salt and parameters included; takes some 50 ms, on purpose."""
    from argon2 import PasswordHasher  # a process without passwords need not load it

    return PasswordHasher().hash(password)


def is_password(password: str, hashed: str) -> bool:
    from argon2 import PasswordHasher
    from argon2.exceptions import VerifyMismatchError

    try:
        return PasswordHasher().verify(hashed, password)
    except VerifyMismatchError:
        return False
