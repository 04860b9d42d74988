"""One reader per file format; all give the same records, one by one, with `RowError`s between them.

| kind | reader | formats |
|---|---|---|
| policies, skills, tools | `read_policies`, `read_skills` | JSON lines and what `artifact_format` knows; SKILL.md |
| conversations | `read_conversations` | JSON lines and the formats of `CONVERSATION_FORMATS` (recognised row by row) |
| judgements, exemplars | `read_judgements`, `read_exemplars` | JSON lines |
"""

from sq_core.readers.artifacts import read_policies
from sq_core.readers.conversations import CONVERSATION_FORMATS, JOINED_FORMATS, read_conversations
from sq_core.readers.jsonl import RowError
from sq_core.readers.own import ArtifactText, ExemplarRow, JudgementRow, read_exemplars, read_judgements
from sq_core.readers.skills import read_skills

__all__ = [
    "CONVERSATION_FORMATS",
    "JOINED_FORMATS",
    "ArtifactText",
    "ExemplarRow",
    "JudgementRow",
    "RowError",
    "read_conversations",
    "read_exemplars",
    "read_judgements",
    "read_policies",
    "read_skills",
]
