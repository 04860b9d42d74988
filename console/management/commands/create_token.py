"""``create_token NAME --role ROLE [--inventory SLUG] [--days N]``: an API token, shown once."""

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from console.management.shared import COMMAND_LINE, ServiceCommand, inventory_of
from console.models import Role
from console.services.accounts import mint_token


class Command(ServiceCommand):
    help = "Mint an API token and print it; only its digest is stored."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the agent or script that will use it")
        parser.add_argument("--role", default=Role.VIEWER.value, choices=Role.values)
        parser.add_argument("--inventory", metavar="SLUG", help="the only one it may see; every one by default")
        parser.add_argument(
            "--days", type=int, default=365, help="days until it expires; 0 = never (default %(default)s)"
        )

    def run(self, **options: Any) -> None:
        inventory = inventory_of(options["inventory"]) if options["inventory"] else None
        expires = timezone.now() + timedelta(days=options["days"]) if options["days"] else None
        token, plain = mint_token(
            by=COMMAND_LINE, name=options["name"], role=options["role"], inventory=inventory, expires_at=expires
        )
        until = f"until {expires:%Y-%m-%d}" if expires else "for ever"
        self.say(f"{plain}\n{token.role} on {inventory or 'every inventory'}, {until}. It is not shown again.")
