"""``judge INV [ARTIFACT…]``: the console's run of that kind, in the foreground."""

from console.management.runs import RunCommand


class Command(RunCommand):
    help = "Score turns from 1 to 5 for every policy, from the conversation so far."
    kind = "judge"
