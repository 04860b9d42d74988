"""What decides: one release as a bundle, kept per process under the release's own identity."""

import pytest
from django.db import transaction

from console.services import artifacts, runtime
from console.services.errors import NotFound
from tests.make import World

pytestmark = pytest.mark.django_db


def test_a_release_that_was_rolled_back_leaves_no_bundle_behind(world: World) -> None:
    with transaction.atomic():
        artifacts.edit_artifact(world.cancel, by=world.by, text="never committed")
        assert runtime.runtime(world.inventory, "draft").artifact("cancel-order").text == "never committed"
        transaction.set_rollback(True)
    artifacts.edit_artifact(world.cancel, by=world.by, text="committed")  # a release of the same number
    assert runtime.runtime(world.inventory, "draft").artifact("cancel-order").text == "committed"
    assert runtime.runtime(world.inventory, "live").artifact("cancel-order").text == "committed"


def test_a_release_is_built_once_and_found_by_name_and_number(world: World) -> None:
    draft = runtime.runtime(world.inventory, "draft")
    assert runtime.runtime(world.inventory, draft.release) is draft
    assert runtime.release_number(world.inventory, "live") == draft.release
    with pytest.raises(NotFound):
        runtime.runtime(world.inventory, draft.release + 1)
