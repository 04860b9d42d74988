"""The one string of an artifact that the centre, the text baselines and the generator read."""


def artifact_text(kind: str, name: str, text: str) -> str:
    """A policy speaks by its text alone; what agents look up by name (skill, tool, ...) by its name and description."""
    return text if kind == "policy" else f"{name}\n{text}"
