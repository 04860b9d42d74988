"""A folder of ``SKILL.md`` files as an inventory of skills.

The front matter's `name` and `description` are the artifact; what the centre and the baselines read is name +
description (`sq_core.artifact_text`). A list of `triggers` is offered as ready-made signals. The Markdown below is not
read: it is what the agent opens once the skill is selected.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sq_core.conversation import clean_text
from sq_core.readers.jsonl import LIMIT, BadRowError, RowError, kind_of, needed_text, slug, text_lines
from sq_core.readers.own import ArtifactText


def read_skills(folder: Path) -> Iterator[ArtifactText | RowError]:
    """Every ``SKILL.md`` below `folder` (or that one file) in the order of its path; keys come from the names.

    Needs PyYAML (extra `console`). File names in errors are relative to `folder`.
    """
    paths = [folder] if folder.is_file() else sorted(folder.rglob("SKILL.md"))
    if not paths:
        yield RowError(
            folder.name, 0, "", "no SKILL.md in this folder.", "Give the folder that holds the skills' folders."
        )
    seen: dict[str, str] = {}
    for path in paths:
        name = path.name if folder.is_file() else path.relative_to(folder).as_posix()
        try:
            skill = _skill(path, name)
            if skill.key in seen:
                raise BadRowError(
                    "name", f"{skill.key!r} is taken by {seen[skill.key]}.", "Give each skill its own name."
                )
        except BadRowError as problem:
            yield problem.at(name, 1)
            continue
        seen[skill.key] = name
        yield skill


def _skill(path: Path, name: str) -> ArtifactText:
    front = _front_matter(path, name)
    title = needed_text(front, "name", "Add a name to the front matter.", limit=LIMIT)
    text = needed_text(front, "description", "Say in the front matter what the skill does and when to use it.")
    key = slug(title) or slug(path.parent.name)
    if not key:
        raise BadRowError("name", f"{title[:80]!r} gives no key.", "Use letters a-z or digits in the name.")
    triggers = front.get("triggers")
    phrases = triggers if isinstance(triggers, list) else []
    signals = tuple(clean_text(phrase)[0] for phrase in phrases if isinstance(phrase, str) and phrase.strip())
    replaced = clean_text(f"{front['name']}{front['description']}")[1]
    return ArtifactText(key, title.strip(), text.strip(), "skill", signals, line=1, replaced=replaced)


def _front_matter(path: Path, name: str) -> dict[str, Any]:
    """The YAML between the first two lines of three dashes."""
    import yaml

    lines = []
    for item in text_lines(path, name):
        if isinstance(item, RowError):
            raise BadRowError("", f"line {item.line}: {item.message}", item.mend)
        number, line = item
        if line.rstrip() == "---" and number > 1:
            break
        lines.append(line)
    else:
        lines = []
    if not lines or lines[0].rstrip() != "---":
        raise BadRowError("", "no front matter.", "Begin with ---, name: …, description: …, ---.")
    try:
        front = yaml.safe_load("\n".join(lines[1:]))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 2})" if mark else ""
        problem = getattr(error, "problem", None) or type(error).__name__
        raise BadRowError(
            "", f"the front matter is not valid YAML{where}: {problem}.", "Quote texts that hold a colon."
        ) from None
    if not isinstance(front, dict):
        raise BadRowError(
            "", f"the front matter is {kind_of(front)}, not name: value lines.", "Write name: and description:."
        )
    return front
