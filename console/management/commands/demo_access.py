"""``demo_access``: where the demo answers, its logins, and a fresh API token."""

from typing import Any

from django.conf import settings

from console.management.shared import ServiceCommand, inventory_of
from console.services import demo, sample
from console.services.actor import SYSTEM


class Command(ServiceCommand):
    help = "Print the URL, the demo's logins and a new API token (earlier demo tokens are revoked)."

    def run(self, **options: Any) -> None:
        inventory = inventory_of(sample.SLUG)
        passwords = demo.ensure_demo_users(inventory, by=SYSTEM)
        token = demo.renew_demo_token(inventory, by=SYSTEM)
        self.say(f"  URL    http://127.0.0.1:{settings.PORT}/")
        for name, password in passwords.items():
            self.say(f"  login  {name:10s} {password}")
        self.say(f"  token  {token}   ({demo.TOKEN_ROLE.value} on {inventory.slug}, {demo.TOKEN_DAYS} days)")
