"""The derived files of a bundle on disk: rebuilt from the ledger, replaced atomically, not too often."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pytest_atesor.bundle.files import write_atomic
from pytest_atesor.bundle.layout import AttemptLayout, BundleLayout
from pytest_atesor.bundle.strangers import open_strangers_file
from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.attempt_json import dump_attempt
from pytest_atesor.core.jsontext import parse_json
from pytest_atesor.core.ledger import Ledger
from pytest_atesor.core.plan import Json, Plan
from pytest_atesor.core.summary import Missing, describe_outcome, pick_field, summarize
from pytest_atesor.core.views import format_attempts, format_results, format_summary, format_summary_csv
from pytest_atesor.errors import BadInputError

__all__ = ["ViewLimiter", "Views", "read_evidence"]

_INTERVAL_S: Final = 1.0
_SHARE: Final = 40  # views may take one fortieth of the time
_LARGEST_EVIDENCE_BYTES: Final = 4 * 1024 * 1024


class ViewLimiter:
    """Says when views are due.

    At most once a second, and for at most a fortieth of the time when they are large.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._due_s = monotonic()

    def is_due(self) -> bool:
        """Say whether the views may be written now."""
        return self._monotonic() >= self._due_s

    def wrote(self, started_s: float) -> None:
        """Take note of a write that began at ``started_s`` and ends now."""
        ended_s = self._monotonic()
        self._due_s = ended_s + max(_INTERVAL_S, _SHARE * (ended_s - started_s))


class Views:
    """Writes the views of one bundle.

    It keeps only the summary's fields of what the attempts left, each read once.
    """

    def __init__(self, layout: BundleLayout, plan: Plan) -> None:
        self._layout = layout
        self._fields = plan.summary_fields
        self._write_csv = plan.write_csv
        self._picked: dict[str, tuple[str, Mapping[str, Json | Missing]]] = {}

    def write(self, ledger: Ledger, updated_at: str, *, durable: bool) -> None:
        """Replace the views by what the ledger says now.

        Raises BundleError when the disk does not let us; each file is then the old or the new one, whole.
        """
        layout = self._layout
        write_atomic(layout.results, format_results(ledger, updated_at), durable=durable)
        write_atomic(layout.attempts, format_attempts(ledger, updated_at), durable=durable)
        rows = summarize(ledger, self._pick(ledger))
        write_atomic(layout.summary, format_summary(ledger, rows, self._fields, updated_at), durable=durable)
        if self._write_csv:
            write_atomic(layout.summary_csv, format_summary_csv(rows, self._fields), durable=durable)

    def _pick(self, ledger: Ledger) -> dict[str, Mapping[str, Json | Missing]]:
        if not self._fields:
            return {}
        for case_id, state in ledger.states().items():
            record = describe_outcome(state).record
            if record is None:
                self._picked.pop(case_id, None)
            elif self._picked.get(case_id, ("", {}))[0] != record.attempt_id:
                evidence = read_evidence(self._layout.attempt(case_id, record.attempt_id), record)
                picked = {field: pick_field(evidence, field) for field in self._fields}
                self._picked[case_id] = (record.attempt_id, picked)
        return {case_id: values for case_id, (_, values) in self._picked.items()}


def read_evidence(attempt: AttemptLayout, record: AttemptRecord) -> dict[str, Json]:
    """Return what an attempt left, as one document that dotted paths point into.

    The keys of ``result.json`` and of ``metrics.json`` stand at the top, metrics first in rank; ``result``,
    ``metrics`` and ``attempt`` hold each file whole. A missing or broken file counts as empty; in place of
    ``metrics.json`` the result's own metrics will do.
    """
    result, metrics = _read_object(attempt.result), _read_object(attempt.metrics)
    stated = result.get("metrics")
    if not metrics and isinstance(stated, dict):
        metrics = stated
    whole: dict[str, Json] = {"result": result, "metrics": metrics, "attempt": dump_attempt(record)}
    return {**result, **metrics, **whole}


def _read_object(path: Path) -> dict[str, Json]:
    try:
        with open_strangers_file(path) as file:
            if os.fstat(file.fileno()).st_size > _LARGEST_EVIDENCE_BYTES:
                return {}
            value = parse_json(file.read(), str(path))
    except (BadInputError, OSError):
        return {}
    return value if isinstance(value, dict) else {}
