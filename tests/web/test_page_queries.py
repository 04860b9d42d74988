"""Every list and detail page takes at most 12 queries, and as many for a larger inventory as for a small one."""

import pytest
from django.test import Client

from bench import pages
from console.models import Inventory
from console.services.actor import SYSTEM
from console.services.seed_large import Size, seed_large
from tests import make

SMALL = Size(policies=6, conversations=30, turns=120, judgements=400, decisions=240, dimension=16)
LARGER = Size(policies=15, conversations=120, turns=600, judgements=2_500, decisions=1_500, dimension=16)


def counted(inventory: Inventory, person: str) -> dict[str, pages.Timed]:
    client = Client()
    client.force_login(make.user(person, "admin", inventory))
    return {name: pages.timed(client, name, address, warm=1) for name, address in pages.Pages(inventory.slug).all()}


@pytest.fixture
def measured(transactional_db: None) -> list[dict[str, pages.Timed]]:
    return [counted(seed_large(slug, size, by=SYSTEM), slug) for slug, size in (("few", SMALL), ("many", LARGER))]


def test_queries_of_every_page(measured: list[dict[str, pages.Timed]]) -> None:
    few, many = measured
    assert {name: row.status for name, row in many.items() if row.status != 200} == {}
    assert min(row.queries for row in many.values()) > 0
    over = {name: row.queries for name, row in many.items() if row.queries > pages.MOST_QUERIES}
    told = "\n".join(f"{name}: {sql[:160]}" for name in over for sql in many[name].statements)
    assert over == {}, f"{over}\n{told}"
    grown = {name: (few[name].queries, row.queries) for name, row in many.items() if row.queries > few[name].queries}
    assert grown == {}
