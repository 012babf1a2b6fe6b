"""Reports on their way between two processes."""

from execnet.gateway_base import dumps, loads

from pytest_atesor.work.parcel import pack_report, unpack_report

REPORT: dict[str, object] = {
    "nodeid": "packages/x.json::zlib",
    "location": ("packages/x.json", None, "zlib"),
    "keywords": {"zlib": 1, "slow": 1},
    "longrepr": ("packages/x.json", 0, "Skipped: \udcff"),
    "sections": [("Captured stdout", "one\n")],
    "user_properties": [("status", "SKIPPED"), ("count", 3), ("share", 0.5), ("none", None)],
    "a_plugins_own": {"x": [1, (2, b"3")], 4: True},
}


def test_a_report_comes_out_as_it_went_in() -> None:
    added = {"worker_id": "gw1", "item_index": 7}
    received = loads(dumps({**pack_report(dict(REPORT)), **added}))
    unpack_report(received)
    assert received == {**REPORT, **added}


def test_a_report_is_one_value_on_the_way() -> None:
    assert len(pack_report(REPORT)) == 1


def test_what_cannot_be_packed_travels_as_it_is() -> None:
    data = {"nodeid": "x", "extra": object()}
    sent = pack_report(data)
    assert sent == data
    unpack_report(sent)
    assert sent == data
