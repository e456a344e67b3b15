"""A program of Django's ORM, run by `test_orms.py` in a process of its own: Django is set up once in each.

python -m tests.serve.postgres.django_orm PORT PASSWORD
"""

from __future__ import annotations

import sys
from typing import Any

import django
from django.conf import settings
from django.db import IntegrityError, OperationalError, connection, models, transaction

_RANGE = range(820, 840)


def main(port: str, password: str) -> None:
    engine = "django.db.backends.postgresql"
    place = {"NAME": "app", "USER": "ann", "PASSWORD": password, "HOST": "127.0.0.1", "PORT": port}
    databases = {name: {"ENGINE": engine, **place} for name in ("default", "other")}
    settings.configure(DATABASES=databases, USE_TZ=True, DEFAULT_AUTO_FIELD="django.db.models.BigAutoField")
    django.setup()

    class Note(models.Model):  # type: ignore[misc]  # Django ships no types
        id = models.BigIntegerField(primary_key=True)
        body = models.TextField(null=True)

        class Meta:
            app_label = "notes"
            db_table = "notes"
            managed = False

    class Numbered(models.Model):  # type: ignore[misc]  # as above
        body = models.TextField(null=True)

        class Meta:
            app_label = "notes"
            db_table = "numbered"
            managed = False

    def there(using: str = "default") -> list[tuple[int, str]]:
        return list(Note.objects.using(using).filter(id__in=_RANGE).order_by("id").values_list("id", "body"))

    def fails() -> None:
        with transaction.atomic():
            Note.objects.create(id=820, body="never")
            assert there() == [(820, "never")]
            assert there("other") == []
            raise ZeroDivisionError

    try:
        fails()
    except ZeroDivisionError:
        assert there() == []
    with transaction.atomic():
        Note.objects.create(id=821, body="kept")
        Note.objects.create(id=822, body="changed below")
        try:
            with transaction.atomic():  # a savepoint
                Note.objects.filter(id=821).update(body="undone")
                Note.objects.create(id=822, body="is there")
        except IntegrityError:
            pass
        note = Note.objects.get(id=822)
        note.body = "changed"
        note.save()
        Note.objects.create(id=823, body="gone").delete()
        assert there() == [(821, "kept"), (822, "changed")]
        assert there("other") == []
    assert there("other") == [(821, "kept"), (822, "changed")]
    try:
        with transaction.atomic():
            Note.objects.filter(id=821).update(body="mine")
            Note.objects.using("other").filter(id=821).update(body="theirs")
    except OperationalError as error:
        assert getattr(error.__cause__, "sqlstate", "") == "40001"  # noqa: PT017  # a program, not a test
    else:
        raise AssertionError("a lost race is an error at COMMIT")
    assert there() == [(821, "theirs"), (822, "changed")]
    _keys(Note, Numbered)
    connection.close()


def _keys(note: Any, numbered: Any) -> None:
    """Keys that the server makes, and rows of several at once."""
    with transaction.atomic():
        one = numbered.objects.create(body="by its key")  # which the server makes
        numbered.objects.bulk_create([numbered(body="a"), numbered(body="b")])
        one.save()  # an UPDATE that changes nothing: the row is there, and is not inserted again
        assert numbered.objects.get(pk=one.pk).body == "by its key"
    assert sorted(numbered.objects.values_list("body", flat=True)) == ["a", "b", "by its key"]
    assert numbered.objects.filter(pk__gt=0).delete()[0] == 3
    note.objects.bulk_create([note(id=830, body="a"), note(id=831, body="b")])
    assert [each.id for each in note.objects.filter(id__gte=830, id__lt=840).order_by("id").iterator(1)] == [830, 831]


if __name__ == "__main__":
    main(*sys.argv[1:])
