"""What surrounds every page: navigation, header, words, bars, failures, the files the browser loads."""

import hashlib
import io
import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.http import HttpResponse
from django.template import Context, Template
from django.test import Client, RequestFactory
from django.test.client import ClientHandler
from plotly.offline import get_plotlyjs_version

from console import permissions
from console.middleware import WholeRequestMiddleware
from console.models import Role
from console.presenters import labels
from console.services.errors import Conflict, Invalid, NotFound, Unavailable
from console.templatetags import console as tags
from tests import make

ROOT = Path(__file__).resolve().parent.parent.parent
VENDOR = ROOT / "static" / "vendor"
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))


# ------------------------------------------------------------------------------------------------------------- the pages
@pytest.mark.django_db
def test_the_frame_of_a_page(world: make.World, signed_in: Any) -> None:
    page = signed_in(world.author).get("/i/tiny/policies/").content.decode()
    assert '<a class="skip" href="#main">' in page
    assert page.count('role="status"') >= 1
    assert 'id="status" class="status" role="status"' in page
    assert '<main class="main" id="main"' in page
    assert re.search(r'href="/i/tiny/policies/" aria-current="page"', page)
    assert "Tiny shop" in page
    assert "θ" not in page.split("<main")[0]  # plain words, until somebody asks for the technical ones
    assert page.count("<h1") == 1


@pytest.mark.django_db
def test_strict_policy_and_vary(world: make.World, signed_in: Any) -> None:
    response = signed_in(world.author).get("/i/tiny/")
    policy = response["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "HX-Request" in response["Vary"]
    assert response["X-Request-Id"]


def test_no_template_has_inline_script_style_or_handler() -> None:
    """The policy would break them; templates may not hold what it forbids."""
    bad = re.compile(
        r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=|\shx-on|js:|href=[\"']javascript:", re.IGNORECASE
    )
    found = {str(path.relative_to(ROOT)): bad.findall(path.read_text()) for path in TEMPLATES}
    assert {name: hits for name, hits in found.items() if hits} == {}


def test_htmx_attributes_are_those_that_mean_the_same_in_2_and_4() -> None:
    bad = re.compile(r"\shx-(on|vars|params|prompt|disabled-elt|disable|ext|history-elt|inherit|disinherit)\b")
    for path in TEMPLATES:
        text = path.read_text()
        assert not bad.findall(text), path
        for tag in re.findall(r"<[a-z][^<>]*\shx-(?:get|post|put|delete)=[^<>]*>", text):
            assert "hx-target=" in tag, (path, tag)
            assert "hx-swap=" in tag, (path, tag)


@pytest.mark.django_db
def test_a_reader_s_inventories_are_in_the_switch(world: make.World, signed_in: Any) -> None:
    page = signed_in(make.user("root", superuser=True)).get("/i/tiny/").content.decode()
    assert 'popovertarget="inventories"' in page
    assert "Somebody else's" in page.replace("&#x27;", "'")
    assert 'popovertarget="inventories"' not in signed_in(world.author).get("/i/tiny/").content.decode()


@pytest.mark.django_db
def test_times_are_shown_in_the_reader_s_zone(world: make.World, signed_in: Any) -> None:
    world.author.time_zone = "Pacific/Auckland"
    world.author.save()
    assert "Times in Pacific/Auckland" in signed_in(world.author).get("/i/tiny/").content.decode()


# ------------------------------------------------------------------------------------------------------------- failures
@pytest.mark.django_db
def test_an_address_without_page(client: Client) -> None:
    response = client.get("/there/is/nothing/")
    assert response.status_code == 404
    assert "There is nothing at this address" in response.content.decode()


@pytest.mark.django_db
def test_a_form_without_token_is_refused_with_a_page_that_says_so(world: make.World) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(world.author)
    response = client.post("/profile/terms/", {"technical": "1"})
    assert response.status_code == 403
    assert "Please send it again" in response.content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize("charset", ["utf-7", "latin-1"])
def test_a_form_that_cannot_be_read_is_no_failure_of_ours(world: make.World, charset: str) -> None:
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    client.get("/sign-in/")  # the CSRF cookie: what checks it reads the form again
    sent = f"application/x-www-form-urlencoded; charset={charset}"
    response = client.generic("POST", "/sign-in/", "username=%ff%fe", content_type=sent)
    assert response.status_code == 400
    assert "This could not be read" in response.content.decode()


@pytest.mark.django_db
def test_a_form_that_is_too_large_says_how_much_is_taken(client: Client, settings: LazySettings) -> None:
    client.get("/sign-in/")
    sent = "application/x-www-form-urlencoded"
    body = "username=" + "x" * settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    response = client.generic("POST", "/sign-in/", body, content_type=sent)
    assert response.status_code == 413
    assert "larger than 12 MB" in response.content.decode()
    many = "&".join(f"f{n}=x" for n in range(settings.DATA_UPLOAD_MAX_NUMBER_FIELDS + 1))
    assert client.generic("POST", "/sign-in/", many, content_type=sent).status_code == 400


class Sent(io.BytesIO):
    """A body that knows whether all of it was taken."""

    @property
    def left(self) -> int:
        return len(self.getbuffer()) - self.tell()


@pytest.mark.parametrize("path", ["/api/v1/inventories/x/discover", "/api/v1/inventories/x/conversations", "/sign-in/"])
def test_too_large_a_body_is_read_to_its_end_before_that_is_said(rf: RequestFactory, path: str) -> None:
    """A client that is still sending would see a broken pipe in place of the answer."""
    sent = Sent(b"a" * (13 * 2**20))
    kind = "application/x-www-form-urlencoded" if path == "/sign-in/" else "application/json"
    environ = {**rf.generic("POST", path).environ, "CONTENT_TYPE": kind}
    handler = ClientHandler(enforce_csrf_checks=False)
    response = handler({**environ, "wsgi.input": sent, "CONTENT_LENGTH": str(len(sent.getbuffer()))})
    assert response.status_code == 413
    assert sent.left == 0
    endless = Sent(b"a" * (WholeRequestMiddleware.MOST + 2**20))
    handler({**environ, "wsgi.input": endless, "CONTENT_LENGTH": str(len(endless.getbuffer()))})
    assert endless.left == 2**20


def test_a_host_name_that_is_not_ours_is_answered_in_the_words_of_page_and_api(client: Client) -> None:
    page = client.get("/sign-in/", headers={"Host": "evil.example"})
    assert page.status_code == 400
    assert "does not answer under this host name" in page.content.decode()
    assert "evil.example" not in page.content.decode()
    reply = client.get("/api/v1/inventories", headers={"Host": "evil.example"})
    assert (reply.status_code, reply["Content-Type"]) == (400, "application/json; charset=utf-8")
    error = reply.json()["error"]
    assert (error["code"], error["field"]) == ("malformed", "Host")
    assert error["request_id"] == reply["X-Request-Id"]


def test_a_broken_view_answers_with_the_request_s_id(rf: RequestFactory) -> None:
    from console.views.errors import server_error

    request = rf.get("/")
    request.request_id = "req-0815-4711"  # type: ignore[attr-defined]
    response = server_error(request)
    assert response.status_code == 500
    assert "req-0815-4711" in response.content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (
            Conflict("Version 3 is newest.", base_version=2, current_version=3, made_by="mara"),
            409,
            "Version 3 was made",
        ),
        (Invalid("The text is empty.", hint="Write one."), 422, "The text is empty."),
        (Unavailable("The encoder is away."), 503, "Nothing was written."),
    ],
)
def test_what_a_service_refuses_is_a_page_or_a_part(
    error: Exception, status: int, words: str, world: make.World, rf: RequestFactory
) -> None:
    @permissions.require(Role.VIEWER)
    def view(request: permissions.Request, inventory: Any) -> HttpResponse:
        raise error

    for part in (False, True):
        request: Any = rf.get("/", headers={"HX-Request": "true"} if part else {})
        request.user, request.request_id, request.session, request.htmx = world.author, "req-1", {}, part
        if part:
            request.htmx = type("Htmx", (), {"history_restore_request": False})()
        request._messages = []
        response: Any = view(request, inv="tiny")
        assert response.status_code == status
        assert words in response.content.decode()
        assert ("<html" in response.content.decode()) is not part


@pytest.mark.django_db
def test_what_a_service_does_not_find_is_404(world: make.World, signed_in: Any) -> None:
    assert signed_in(world.author).get("/i/tiny/policies/no-such-policy/edit/").status_code == 404
    assert signed_in(world.author).get("/i/tiny/releases/1...999/").status_code == 404
    assert NotFound.status == 404


# ---------------------------------------------------------------------------------------------------------------- words
def render(text: str, **context: Any) -> str:
    return Template("{% load console %}" + text).render(Context(context))


def test_labels_come_from_the_table_and_turn_technical() -> None:
    assert render('{% label "margin" %}') == "Match strength"
    assert render('{% label "margin" %}', technical_terms=True) == "Margin"
    assert render('{% label "anti_signal" "lower" %}') == "don't-show example".replace("'", "&#x27;")
    assert render('{% label "calibrated" "lower" %}', technical_terms=True) == "calibrated"
    with pytest.raises(KeyError):
        labels.term("no such term")


def test_templates_ask_only_for_words_that_exist() -> None:
    """A misspelt term would be an error on the page that shows it."""
    asked = re.compile(r"""\{% (?:label|term|label_line) ['"]([a-z_]+)['"]""")
    for path in TEMPLATES:
        unknown = [name for name in asked.findall(path.read_text()) if name not in labels.TERMS]
        assert unknown == [], path


def test_actions_read_as_words() -> None:
    assert labels.action("promote") == "Took an example into use"
    assert labels.action("some-new_thing") == "Some new thing"


def test_numbers() -> None:
    assert tags.signed(0.1449) == "+0.14"
    assert tags.signed(-0.068) == "−0.07"
    assert tags.signed(0.001) == "0.00"
    assert tags.signed(None) == tags.percent(None) == tags.number(None) == tags.count(None) == "–"
    assert tags.percent(0.925) == "92\u00a0%"
    assert tags.plus_one(0) == 1
    assert tags.few(19)
    assert not tags.few(20)
    assert tags.minus(0.5, 0.2) == pytest.approx(0.3)
    assert tags.minus(None, 1.0) is None


def test_the_bar_stands_right_of_the_cut_off_only_when_it_is_over() -> None:
    over = tags.margin_bar(0.5, -0.5)
    assert 'class="over" x="60.0" y="4" width="30.0"' in over
    assert "+0.50, 1.00 over the cut-off −0.50" in over
    under = tags.margin_bar(-1.5, -0.5)
    assert 'class="under" x="30.0" y="4" width="30.0"' in under
    assert "1.00 under" in under
    equal = tags.margin_bar(0.2, 0.2)
    assert 'class="under"' in equal  # strict: at the cut-off it is not selected
    assert "not scored" in tags.margin_bar(None, 0.0)
    assert 'width="60.0"' in tags.margin_bar(99.0, 0.0)  # held at the end
    assert "bar-figure" not in tags.margin_bar(0.1, 0.0, figure=False)
    assert "style=" not in over


def test_the_other_bars() -> None:
    assert 'class="pos"' in tags.signed_bar(0.3)
    assert 'class="neg"' in tags.signed_bar(-0.3)
    assert "low" in tags.meter(0.5, 0.9)
    assert "low" not in tags.meter(0.95, 0.9)
    assert tags.meter(None) == ""
    assert 'class="delta up"' in tags.delta(0.5, 0.75)
    assert 'class="delta down"' in tags.delta(0.75, 0.5)
    assert 'class="delta same"' in tags.delta(0.5, 0.5)
    assert 'class="delta same"' in tags.delta(None, 0.5)
    assert 'class="delta plain"' in tags.delta(0.0, -0.07, "signed")
    assert "3" in tags.delta(3, 4, "count")


def test_marks_say_what_they_show() -> None:
    shown = render('{% mark "anti-signal" %}')
    assert "▼" in shown
    assert "don&#x27;t-show example" in shown.lower()
    assert "visually-hidden" not in render('{% mark "pin" True %}')


def test_links_keep_the_rest_of_the_query(rf: RequestFactory) -> None:
    request = rf.get("/?q=bag&f=state:is:unfitted&f=mode:is:off&after=12")
    text = Template('{% load console %}{% query after=None sort="name" %}').render(Context({"request": request}))
    assert "q=bag" in text
    assert text.count("f=") == 2
    assert "after" not in text
    again = Template('{% load console %}{% sort_query "name" "name" %}').render(Context({"request": request}))
    assert "sort=-name" in again


# ------------------------------------------------------------------------------------------------------- the vendored files
def test_vendored_files_are_those_of_the_readme() -> None:
    readme = (VENDOR / "README.md").read_text()
    for name in ("htmx.min.js", "plotly-cartesian.min.js", "plotly.css"):
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() in readme, name


def test_code_in_plain_text_is_shown_as_code_and_nothing_else() -> None:
    assert tags.codes("send ``q`` or `a < b`, <b>not</b> `this") == (
        "send <code>q</code> or <code>a &lt; b</code>, &lt;b&gt;not&lt;/b&gt; `this"
    )


def test_plotly_js_and_plotly_py_are_of_one_version() -> None:
    version = get_plotlyjs_version()
    assert f"v{version}" in (VENDOR / "plotly-cartesian.min.js").read_text()[:400]
    assert version in (VENDOR / "README.md").read_text()


def test_no_page_loads_from_elsewhere() -> None:
    for path in TEMPLATES:
        assert not re.search(r"""(?:src|href)=["']https?://""", path.read_text()), path


def test_nul_in_an_address_or_a_form_never_reaches_the_database(signed_in, world) -> None:  # type: ignore[no-untyped-def]
    client = signed_in(world.author)
    base = f"/i/{world.inventory.slug}"
    for address in (f"{base}/conversations/?after=%00", f"{base}/policies/?q=%00x", f"{base}/conversations/?q=a%00b"):
        assert client.get(address).status_code == 200, address
    posted = client.post(f"{base}/policies/cancel-order/exemplars/preview/", {"action": "retire", "exemplar": "a\x00b"})
    assert posted.status_code == 400  # the step is not readable; on PostgreSQL the raw text would have been a 500


def test_who_may_move_the_encoder_but_not_the_rest_is_led_to_that_page(world: make.World, signed_in: Any) -> None:
    for user, address in (
        (world.admin, "/i/tiny/settings/general/"), (world.publisher, "/i/tiny/settings/migration/"), (world.author, ""),
    ):  # fmt: skip
        page = signed_in(user).get("/i/tiny/").content.decode()
        assert (f'href="{address}"' in page) == bool(address)
        assert page.count("/i/tiny/settings/") == bool(address)
