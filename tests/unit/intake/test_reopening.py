from collections.abc import Callable
from dataclasses import replace

from pytest_atesor.core.events import BatchStarted
from pytest_atesor.core.ledger import Ledger, fold_events
from pytest_atesor.core.plan import Plan
from pytest_atesor.intake.reopening import find_image
from pytest_atesor.sandbox.pinning import PinnedImage

PlanFactory = Callable[..., Plan]
AT = "2026-01-02T03:04:05Z"


def test_a_batch_goes_on_in_the_image_of_its_last_session_else_in_the_plan_s(make_plan: PlanFactory) -> None:
    def fold(plan: Plan, *used: tuple[str | None, tuple[str, ...]]) -> Ledger:
        return fold_events(
            plan,
            [
                BatchStarted(at=AT, host="h", pid=1, version="0", workers=1, image=image, image_ids=ids)
                for image, ids in used
            ],
        )

    bare = make_plan("zlib")
    plan = replace(bare, settings={"image": "debian", "image_id": "a1"})
    planned, later = PinnedImage("debian", "a1"), PinnedImage("debian", "b2")
    assert find_image(fold(plan)) == planned
    assert find_image(fold(plan, (None, ()))) == planned
    assert find_image(fold(plan, ("debian", ("a1",)), ("debian", ("b2",)))) == later
    assert find_image(fold(bare, ("debian", ("b2",)))) == later
    assert find_image(fold(bare, ("debian", ("a1", "b2")))) is None
    assert find_image(fold(bare, ("", ()))) is None
    assert find_image(fold(bare)) is None
