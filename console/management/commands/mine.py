"""``mine INV [ARTIFACT…]``: the console's run of that kind, in the foreground."""

from console.management.runs import RunCommand


class Command(RunCommand):
    help = "Find examples in judged conversations: candidates."
    kind = "mine"
