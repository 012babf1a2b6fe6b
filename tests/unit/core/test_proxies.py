import pytest

from pytest_atesor.core.proxies import Proxy, check_proxies, parse_proxy
from pytest_atesor.errors import SetupError


@pytest.mark.parametrize(
    ("value", "proxy"),
    [
        ("http://proxy.example:3128", Proxy("proxy.example", has_user=False)),
        ("proxy.example:3128", Proxy("proxy.example", has_user=False)),
        ("socks5h://me:word@proxy/", Proxy("proxy", has_user=True)),
        ("http://[::1]:3128", Proxy("::1", has_user=False)),
    ],
)
def test_the_url_of_a_proxy_is_read(value: str, proxy: Proxy) -> None:
    assert parse_proxy(value) == proxy


@pytest.mark.parametrize(
    "value", ["http://[::1", "http://proxy:80a", "http://", ":3128", "http://proxy:99999"]
)
@pytest.mark.parametrize("name", ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"])
def test_what_is_no_url_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(SetupError) as caught:
        check_proxies({name: value})
    assert str(caught.value) == f"{name}={value!r} is no URL of a proxy; correct or unset it"


def test_what_nobody_reads_may_be_anything() -> None:
    check_proxies({"HTTP_PROXY": "http://[", "no_proxy": "[::1", "http_proxy": ""})
