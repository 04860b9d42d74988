"""Dependencies between artifacts, applied after retrieval and never folded into a margin.

`requires`: A needs B beside it. `entails`: A brings B with it. At run time both do the same: where A fires, B fires
with the reason `dependency` and the artifact that pulled it in. They are told apart for the reader and for checks of
the inventory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping


def pulled_in(fired: Iterable[str], links: Mapping[str, Collection[str]], allowed: Collection[str]) -> dict[str, str]:
    """The artifacts that `fired` pull in, transitively: key → the artifact it came through.

    `links` maps an artifact to what it requires or entails. Breadth first from `fired` in sorted order, so the nearest
    puller is named and the answer does not depend on the order given. Keys outside `allowed` (off, archived, unknown)
    are neither pulled in nor passed through; cycles do no harm here.
    """
    queue = deque(sorted(set(fired)))
    seen = set(queue)
    via: dict[str, str] = {}
    while queue:
        source = queue.popleft()
        for target in sorted(set(links.get(source, ()))):
            if target not in seen and target in allowed:
                seen.add(target)
                via[target] = source
                queue.append(target)
    return via


def find_cycle(links: Mapping[str, Collection[str]]) -> tuple[str, ...] | None:
    """A cycle as the keys along it, the first repeated at the end, or None. Deterministic; iterative, so depth is no
    limit.
    """
    done: set[str] = set()
    for start in sorted(links):
        path: list[str] = []
        stack: list[tuple[str, bool]] = [(start, True)]
        while stack:
            key, entering = stack.pop()
            if not entering:
                path.pop()
                done.add(key)
            elif key in path:
                return (*path[path.index(key) :], key)
            elif key not in done:
                path.append(key)
                stack.append((key, False))
                stack.extend((target, True) for target in sorted(set(links.get(key, ())), reverse=True))
    return None
