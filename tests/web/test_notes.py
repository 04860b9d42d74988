"""Notes, flags and mentions on any object: drafts, who is told, what is filtered, and what the audit keeps."""

from typing import Any

import pytest

from console.models import AuditEvent, Exemplar, Mention, Note, Role, Run
from console.presenters import notes as shown
from console.services import audit_read, conversation_list, notes, runs
from console.services.actor import person
from console.services.errors import Conflict, Forbidden, NotFound
from tests import make

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
WRITE = "/i/tiny/notes/write/"


def text(response: Any, status: int = 200) -> str:
    assert response.status_code == status, (response.status_code, response.content.decode()[:300])
    found: str = response.content.decode()
    return found


def objects(world: make.World) -> dict[str, tuple[str, str]]:
    """kind -> (id, the page that shows its notes)."""
    talk = world.talks["talk-1"].public_id
    run: Run = runs.create_run(world.inventory, "mine", by=world.by)
    exemplar = Exemplar.objects.filter(artifact=world.cancel).first()
    assert exemplar is not None
    return {
        "artifact": ("cancel-order", "/i/tiny/policies/cancel-order/"),
        "turn": (f"{talk}/1", f"/i/tiny/conversations/{talk}/?t=1"),
        "conversation": (talk, f"/i/tiny/conversations/{talk}/?t=0"),
        "run": (run.public_id, f"/i/tiny/runs/{run.public_id}/"),
        "release": ("2", "/i/tiny/releases/1...2/"),
        "version": ("cancel-order/1", ""),
        "exemplar": (exemplar.public_id, f"/i/tiny/notes/on/?kind=exemplar&object={exemplar.public_id}"),
    }


def test_on_every_kind_of_object(world: make.World, signed_in: Any) -> None:
    reviewer = signed_in(world.reviewer)
    for kind, (name, page) in objects(world).items():
        said = f"look at this {kind} <b>again</b>"
        post = {"kind": kind, "object": name, "text": said, "do": "note", "next": page or "/i/tiny/"}
        assert reviewer.post(WRITE, post)["Location"] == (page or "/i/tiny/"), kind
        note = Note.objects.get(object_type=kind)
        assert note.label
        if page:
            body = text(reviewer.get(page))
            assert f"look at this {kind} &lt;b&gt;again&lt;/b&gt;" in body, kind
            assert 'data-key="m"' in body
            history = f"f=policy:is:{name}" if kind == "artifact" else f"object={name.replace('/', '%2F')}"
            if kind != "conversation":  # its notes stand at its messages
                assert f'/i/tiny/audit/?{history}" data-key="h"' in body, kind
        opened = reviewer.get(f"/i/tiny/notes/{note.public_id}/")
        assert opened.status_code == 302
        assert opened["Location"].endswith(f"#note-{note.public_id}")
        listed = text(reviewer.get("/i/tiny/notes/", {"f": f"kind:is:{kind}"}))
        assert listed.count("look at this") == 1
    wanted = audit_read.asked({}, ["policy:is:cancel-order", "action:is:note"])
    assert audit_read.events(world.inventory, wanted).count() == 3  # the policy's own, its version's, its example's


def test_what_is_not_there_cannot_be_noted(world: make.World, signed_in: Any) -> None:
    reviewer, theirs = signed_in(world.reviewer), make.conversation(world.others, "theirs", ["hello"])
    for kind, name in (
        ("artifact", "none"), ("turn", "x/y"), ("turn", f"{theirs.public_id}/0"), ("conversation", theirs.public_id),
        ("run", ""), ("release", "99"), ("release", "²"), ("version", "cancel-order/77"), ("version", "1"), ("cat", "tom"),
        ("exemplar", "9" * 400), ("turn", f"{world.talks['talk-1'].public_id}/99"),
    ):  # fmt: skip
        assert reviewer.post(WRITE, {"kind": kind, "object": name, "text": "x"}).status_code == 404, (kind, name)
    assert not Note.objects.exists()


def test_a_number_with_zeros_before_it_names_the_same_object(world: make.World, signed_in: Any) -> None:
    talk = world.talks["talk-1"].public_id
    for kind, name, plain in (
        ("turn", f"{talk}/001", f"{talk}/1"),
        ("release", "002", "2"),
        ("version", "cancel-order/01", "cancel-order/1"),
    ):
        post = {"kind": kind, "object": name, "text": f"seen on the {kind}", "do": "note"}
        assert signed_in(world.reviewer).post(WRITE, post).status_code == 302
        assert f"seen on the {kind}" in text(
            signed_in(world.viewer).get("/i/tiny/notes/on/", {"kind": kind, "object": plain})
        )


def test_roles_and_strangers(world: make.World, signed_in: Any) -> None:
    post = {"kind": "artifact", "object": "cancel-order", "text": "mine", "do": "flag"}
    for role, somebody in world.by_role.items():
        able = Role(role).includes(Role.REVIEWER)
        assert signed_in(somebody).post(WRITE, post).status_code == (302 if able else 403)
        page = text(signed_in(somebody).get("/i/tiny/policies/cancel-order/"))
        assert ('data-key="m"' in page) == able
    assert signed_in(world.stranger).post(WRITE, post).status_code == 404
    note = Note.objects.first()
    assert note is not None
    for address in (f"/i/others/notes/{note.public_id}/", f"/i/tiny/notes/{note.public_id}/"):
        assert signed_in(world.stranger).get(address).status_code == 404
    assert signed_in(world.stranger).post(f"/i/others/notes/{note.public_id}/close/").status_code == 404


# ------------------------------------------------------------------------------------------------------------------- drafts
def test_a_draft_is_saved_as_it_is_typed_and_seen_by_its_writer_alone(world: make.World, signed_in: Any) -> None:
    rob, ada = signed_in(world.reviewer), signed_in(world.author)
    post = {"kind": "artifact", "object": "cancel-order", "do": "draft"}
    said = text(rob.post(WRITE, post | {"text": "half a th"}, headers=HTMX))
    assert said.startswith("Saved ")
    assert text(rob.post(WRITE, post | {"text": "half a thought"}, headers=HTMX)).startswith("Saved ")
    assert [(n.text, n.draft) for n in Note.objects.all()] == [("half a thought", True)]
    assert "half a thought" in text(rob.get("/i/tiny/policies/cancel-order/"))
    assert "half a thought" not in text(ada.get("/i/tiny/policies/cancel-order/"))
    assert "half a thought" not in text(ada.get("/i/tiny/notes/"))
    assert not AuditEvent.objects.filter(action__startswith="note.").exists()
    part = text(rob.post(WRITE, post | {"text": "a whole thought", "do": "note"}, headers=HTMX))
    assert "<html" not in part
    assert "a whole thought" in part
    assert not Note.objects.filter(draft=True).exists()
    rob.post(WRITE, post | {"text": "x"}, headers=HTMX)
    assert text(rob.post(WRITE, post | {"text": "  "}, headers=HTMX)) == ""  # emptied: gone
    assert Note.objects.count() == 1
    assert rob.post(WRITE, post | {"text": "kept"}).status_code == 302  # without scripts


def test_an_empty_or_endless_note_is_refused_with_what_was_typed(world: make.World, signed_in: Any) -> None:
    rob = signed_in(world.reviewer)
    post = {"kind": "artifact", "object": "cancel-order"}
    assert "Say what is wrong" in text(rob.post(WRITE, post | {"do": "flag", "text": " "}, headers=HTMX), 422)
    page = text(rob.post(WRITE, post | {"text": "y" * 4_001}), 422)
    assert "<html" in page
    assert "Keep it to 4000." in page
    assert not Note.objects.exists()


# ----------------------------------------------------------------------------------------------------------------- mentions
def test_members_named_are_told_once(world: make.World, signed_in: Any) -> None:
    on = notes.target(world.inventory, "artifact", "cancel-order")
    words = "@ADA, have a look; @sam @nobody mail@paul.example @rob. And @vera."
    row = notes.write(world.inventory, on, words, by=person(world.reviewer))
    assert sorted(row.mentions.values_list("user__username", flat=True)) == ["ada", "vera"]  # no stranger, not oneself
    assert '<span class="at">@ADA</span>' in shown.marked(row.text)
    assert "mail@paul.example" in shown.marked(row.text)
    ada = signed_in(world.author)
    home = text(ada.get("/i/tiny/"))
    assert "rob names you on Cancel order" in home
    assert "names you" not in text(signed_in(world.publisher).get("/i/tiny/"))
    assert "1 row" not in home
    assert text(ada.get("/i/tiny/notes/", {"f": "names:is:yes"})).count("have a look") == 1
    assert "have a look" not in text(signed_in(world.publisher).get("/i/tiny/notes/", {"f": "names:is:yes"}))
    assert ada.get(f"/i/tiny/notes/{row.public_id}/").status_code == 302
    assert "names you" not in text(ada.get("/i/tiny/"))
    assert Mention.objects.filter(seen_at=None).count() == 1


# -------------------------------------------------------------------------------------------------------------------- flags
def test_a_flag_stands_until_somebody_has_seen_to_it(world: make.World, signed_in: Any) -> None:
    rob, ada = signed_in(world.reviewer), signed_in(world.author)
    talk = world.talks["talk-1"].public_id
    rob.post(WRITE, {"kind": "turn", "object": f"{talk}/1", "text": "wrong customer", "do": "flag"})
    assert "wrong customer" in text(ada.get("/i/tiny/"))
    flagged = conversation_list.wanted(world.inventory, f=["flagged:is:yes"])
    assert [c.external_id for c in conversation_list.matching(world.inventory, flagged)] == ["talk-1"]
    note = Note.objects.get()
    part = text(ada.post(f"/i/tiny/notes/{note.public_id}/close/", headers=HTMX))
    assert "flag, seen to" in part
    assert "seen to by ada" in part
    assert "wrong customer" not in text(ada.get("/i/tiny/"))
    assert not conversation_list.matching(world.inventory, flagged).exists()
    assert ada.post(f"/i/tiny/notes/{note.public_id}/close/").status_code == 409
    actions = list(
        AuditEvent.objects.filter(object_type="turn").order_by("pk").values_list("action", "actor", "reason")
    )
    assert actions == [("note.flag", "rob", "wrong customer"), ("note.close", "ada", "")]
    for f, n in (("open:is:yes", 0), ("open:is:no", 1), ("flag:is:yes", 1), ("by:is:rob", 1), ("text:has:CUSTOMER", 1)):
        assert text(rob.get("/i/tiny/notes/", {"f": f})).count('id="row-') == n, f
    assert "ignored" in text(rob.get("/i/tiny/notes/", {"f": "colour:is:red"}))


def test_a_flag_on_the_whole_stands_at_its_messages(world: make.World, signed_in: Any) -> None:
    talk = world.talks["talk-2"]
    on = notes.target(world.inventory, "conversation", talk.public_id)
    notes.write(world.inventory, on, "the log is cut off", by=world.by, flag=True)
    assert "the log is cut off" in text(signed_in(world.viewer).get(f"/i/tiny/conversations/{talk.public_id}/?t=0"))


def test_one_s_own_note_is_taken_back_and_nobody_else_s(world: make.World, signed_in: Any) -> None:
    on = notes.target(world.inventory, "artifact", "cancel-order")
    row = notes.write(world.inventory, on, "never mind, @paul", by=world.by)
    with pytest.raises(Forbidden):
        notes.close(row, by=person(world.reviewer))
    assert signed_in(world.reviewer).post(f"/i/tiny/notes/{row.public_id}/close/").status_code == 403
    assert signed_in(world.author).post(f"/i/tiny/notes/{row.public_id}/close/").status_code == 302
    with pytest.raises(Conflict):
        notes.close(row, by=world.by)
    assert "never mind" not in text(signed_in(world.author).get("/i/tiny/policies/cancel-order/"))
    assert notes.unseen(world.inventory, world.publisher, size=5) == []
    with pytest.raises(NotFound):
        notes.get_note(world.others, row.public_id)


def test_pages_of_notes_and_their_queries(
    world: make.World, signed_in: Any, django_assert_max_num_queries: Any
) -> None:
    on = notes.target(world.inventory, "artifact", "cancel-order")
    for n in range(notes.PAGE + 3):
        notes.write(world.inventory, on, f"note number {n}", by=world.by)
    rob = signed_in(world.reviewer)
    with django_assert_max_num_queries(12):
        page = text(rob.get("/i/tiny/notes/"))
    assert page.count('id="row-') == notes.PAGE
    following = notes.page(world.inventory, notes.asked([], world.reviewer)).next
    assert text(rob.get("/i/tiny/notes/", {"after": following}, headers=HTMX)).count('id="row-') == 3
    for odd in ("²", "9" * 99):
        assert rob.get("/i/tiny/notes/", {"after": odd}).status_code == 200
