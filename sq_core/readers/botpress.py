"""Botpress 12: questions with their answers (``qna``) and intents, whose phrases are suggested as show examples.

Phrases may stand in one list or in one for each language. An answer is the policy's text, an intent needs a text of its
own. A question that is switched off there is refused, for it would come to life here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sq_core.readers.jsonl import LIMIT, BadRowError, RowError, slug
from sq_core.readers.own import ArtifactText
from sq_core.readers.phrases import each_of, named_policy, phrases_of
from sq_core.readers.rasa import unmarked


def is_botpress(row: Mapping[str, Any]) -> bool:
    """True for a question with its answers, for a file of them (``qnas``), or for an intent."""
    data = row.get("data")
    if isinstance(row.get("qnas"), list) or (isinstance(data, Mapping) and "questions" in data and "answers" in data):
        return True
    return "utterances" in row and "name" in row and bool(row.keys() & {"contexts", "slots"})


def artifacts_of(row: Mapping[str, Any], line: int, filename: str) -> Iterator[ArtifactText | RowError]:
    """The policies of a row; of a whole file each on its own, so that a bad one leaves the others."""
    if isinstance(row.get("qnas"), list):
        yield from each_of(row["qnas"], "qnas", filename, _question)
    elif "utterances" in row:
        yield named_policy(row, "name", "intent", _phrases(row, "utterances", ""), line=line)
    else:
        yield _question(row, line)


def _question(row: Any, line: int) -> ArtifactText:
    data = row.get("data") if isinstance(row, Mapping) else None
    if not isinstance(data, Mapping):
        raise BadRowError("", "expected an object with data.", "Correct the question.")
    if data.get("enabled") is False:
        raise BadRowError("data.enabled", "is false: it is switched off there.", "Leave it out, or switch it on first.")
    asked = tuple(dict.fromkeys(_phrases(data, "questions", "data.")))
    if not asked:
        raise BadRowError("data.questions", "hold no text.", 'Write ["…", "…"].')
    answers = [text for text in _phrases(data, "answers", "data.", one=True) if not text.startswith("#!")]
    key = slug(str(row.get("id") or "")) or slug(asked[0])
    if not key:
        raise BadRowError("id", "gives no key.", "Give the question an id of letters and digits.")
    text = "\n".join(answers[:1]) or f"Question: {asked[0]}"
    return ArtifactText(key, asked[0][:LIMIT], text, "policy", asked, line=line)


def _phrases(holder: Mapping[str, Any], name: str, where: str, *, one: bool = False) -> Iterator[str]:
    """The texts of a list, or of the lists of all languages; with `one` of English, or else the first language, alone."""
    given = holder.get(name)
    if isinstance(given, Mapping):
        lists = dict(given)
        if one and lists:
            lang = "en" if lists.get("en") else next((each for each in lists if lists[each]), next(iter(lists)))
            lists = {lang: lists[lang]}
    else:
        lists = {"": given}
    for lang, texts in lists.items():
        place = f"{where}{name}" + (f".{lang[:20]}" if lang else "")
        yield from phrases_of(texts, place, _bare)


def _bare(text: str) -> str:
    return unmarked(text.strip())
