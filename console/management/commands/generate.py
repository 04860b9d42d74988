"""``generate INV [ARTIFACT…]``: the console's run of that kind, in the foreground."""

from console.management.runs import RunCommand


class Command(RunCommand):
    help = "Write examples for policies from their texts: candidates, in use only where a policy has none."
    kind = "generate"
