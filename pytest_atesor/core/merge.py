"""Deep merging of documents, with the origin of every value kept."""

from pytest_atesor.core.documents import Document, Mark, find_marks
from pytest_atesor.core.jsontext import JsonPath
from pytest_atesor.core.plan import Json

__all__ = ["merge_documents"]


def merge_documents(base: Document, over: Document) -> Document:
    """Return ``base`` with ``over`` on top: objects merge key by key, everything else is replaced whole.

    The marks follow the values: each place of the result knows the file that its value came from.
    """
    marks = dict(find_marks(base))
    value = _merge(base.value, over.value, (), marks)
    marks.update(find_marks(over))
    return Document(value=value, marks=marks, where=over.where)


def _merge(base: Json, over: Json, path: JsonPath, marks: dict[JsonPath, Mark]) -> Json:
    if isinstance(base, dict) and isinstance(over, dict):
        merged = dict(base)
        for key, value in over.items():
            merged[key] = _merge(base[key], value, (*path, key), marks) if key in base else value
        return merged
    for stale in [known for known in marks if known[: len(path)] == path]:
        del marks[stale]
    return over
