"""Finders of `redaction`: each gives (start, end) of what has its kind's shape, in one pass over a folded text."""

import ipaddress
import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from itertools import islice

from sq_core.redaction_numbers import BARRIER, DENSE, IS_DENSE, SPACES, Found, cards, phones

__all__ = ["BARRIER", "FINDERS", "fold", "mod_97", "terms"]

_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")


def fold(text: str) -> str:
    """Full-width signs and every script's digits as ASCII, character by character: places in it are places in the text."""
    if text.isascii():
        return text
    return _OTHER_DIGIT.sub(lambda found: str(unicodedata.decimal(found[0])), text.translate(_WIDE))


# ------------------------------------------------------------------------------------------------- e-mail and credentials
_LOCAL = frozenset("!#$%&'*+/=?^_`{|}~-.")
_AT = re.compile(r"(?<=[^\s\0@])@(?=[^\W_])")


def emails(text: str) -> Found:
    """From every @ outwards: what lies between two of them is read once for each."""
    for found in _AT.finditer(text):
        at = found.start()
        end = _domain_end(text, at)
        if end > at + 1 and (start := _local_start(text, at)) < at:
            yield start, end


def _local_start(text: str, at: int) -> int:
    if at and text[at - 1] == '"':
        quote = text.rfind('"', max(0, at - 66), at - 1)
        return at if quote < 0 or BARRIER in text[quote:at] else quote
    dense = at > 0 and IS_DENSE.match(text[at - 1]) is not None
    start = at
    while start and (text[start - 1] in _LOCAL or (text[start - 1].isalnum() and (dense or _plain(text[start - 1])))):
        start -= 1
    while start < at and text[start] == ".":
        start += 1
    return start


def _plain(sign: str) -> bool:
    return not IS_DENSE.match(sign)


def _domain_end(text: str, at: int) -> int:
    """Where the name of a domain with a dot in it ends; ``at + 1`` where there is none."""
    start = at + 1
    dense = start < len(text) and IS_DENSE.match(text[start]) is not None
    end = start
    while end < len(text) and end - start < 255:
        sign = text[end]
        if sign == "." and text[end - 1] in ".@":
            break
        if not (sign in ".-" or (sign.isalnum() and (dense or _plain(sign)))):
            break
        end += 1
    labels = text[start:end].split(".")
    while labels and not (len(labels[-1]) > 1 and (labels[-1].isalpha() or labels[-1].lower().startswith("xn--"))):
        labels.pop()
    return start + len(".".join(labels)) if len(labels) > 1 else start


_AUTHORITY = re.compile(r"://([^/?#\s\"'<>\0]*+)")
_PARAMETER = re.compile(
    r"[?&;#](?:(?:access|id|refresh|auth|api|csrf|session|reset|secret)[_-]?)?"
    r"(?:token|key|apikey|password|passwd|pwd|secret|sig|signature|session|sessionid|sid|jwt|otp|code|auth)"
    r"=([^&#;\s\"'<>\0]++)",
    re.IGNORECASE,
)


def credentials(text: str) -> Found:
    """user:password of an address, and the value of a parameter that lets somebody in."""
    if "=" not in text and "://" not in text:
        return
    for found in _AUTHORITY.finditer(text):
        user = found[1].rpartition("@")[0]
        if user:
            yield found.start(1), found.start(1) + len(user)
    for found in _PARAMETER.finditer(text):
        yield found.span(1)


# ----------------------------------------------------------------------------------------------------------- IBAN, addresses
_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO", 16: "BE", 18: "DK FO FI GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK", 21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL", 24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST", 26: "IS TR", 27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HU LB NI PL SV",
        29: "BR EG PS QA UA", 30: "JO KW MU", 31: "MT SC", 32: "LC", 33: "RU",
    }.items()
    for country in countries.split()
}  # fmt: skip
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}[0-9]{2}")
_IBAN_GAP = re.compile(f"[{SPACES}\\-]")


def ibans(text: str) -> Found:
    """The length of its country, at least half of it digits, gaps of one sign at most, and the remainder 1 by 97 (ISO
    13616). One in 97 sentences that begin as one does ("SK411 got in three hours late") has that remainder, too.
    """
    for found in _IBAN.finditer(text):
        length = _LENGTHS.get(found[0][:2].upper())
        end, signs = found.end(), [found[0]]
        while length and len(signs) + 3 < length and end < len(text):
            step = 1 if _IBAN_GAP.match(text[end]) else 0
            sign = text[end + step : end + step + 1]
            if not (sign.isascii() and sign.isalnum()):
                break
            signs.append(sign)
            end += step + 1
        if length != len(signs) + 3 or text[end : end + 1].isalnum():
            continue
        iban = "".join(signs)
        if 2 * sum(map(str.isdigit, iban)) >= length and mod_97(iban):
            yield found.start(), end


def mod_97(iban: str) -> bool:
    """Its first four signs put last, letters as 10 to 35, it leaves 1."""
    return int("".join(str(int(sign, 36)) for sign in iban[4:] + iban[:4])) % 97 == 1


_IPV4 = re.compile(r"(?<![0-9A-Za-z_.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9A-Za-z_]|\.[0-9])")
_IPV6 = re.compile(r"(?<![0-9A-Za-z_:.])[0-9A-Fa-f:.]++(?![0-9A-Za-z_])")
_ADDRESSED = re.compile(r"[0-9A-Fa-f][.:][0-9A-Fa-f]|::")  # the cheap question first
_NUMBERED = re.compile(r"(?:version|release|build|section|v)[ .:]*\Z", re.IGNORECASE)


def ips(text: str) -> Found:
    if not _ADDRESSED.search(text):
        return
    for found in _IPV4.finditer(text):
        fits = all(int(part) < 256 for part in found[0].split("."))
        if fits and not _NUMBERED.search(text[max(0, found.start() - 12) : found.start()]):
            yield found.span()
    for found in _IPV6.finditer(text):
        written = found[0].rstrip(".")
        written = written if written.endswith("::") else written.rstrip(":")
        if 2 <= written.count(":") <= 8 and len(written) <= 45 and any(sign.isdigit() for sign in written):
            try:
                ipaddress.IPv6Address(written)
            except ValueError:
                continue
            yield found.start(), found.start() + len(written)


# -------------------------------------------------------------------------------------------------------------------- terms
_NONE: tuple[list[int], frozenset[tuple[str, ...]]] = ([], frozenset())
_TOKEN = re.compile(f"[{DENSE}]|(?:[^\\W{DENSE}][\u0300-\u036f]*+)++|[^\\w\\s]")


def _same(token: str) -> str:
    return token.casefold() if token.isascii() else unicodedata.normalize("NFKC", token.casefold())


@lru_cache(maxsize=64)
def _by_first(terms: tuple[str, ...]) -> dict[str, tuple[list[int], frozenset[tuple[str, ...]]]]:
    """First token → how many tokens its terms have, longest first, and the terms."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for term in terms:
        tokens = tuple(_same(part) for part in _TOKEN.findall(fold(term)))
        if tokens:
            found.setdefault(tokens[0], set()).add(tokens)
    return {
        first: (sorted({len(tokens) for tokens in held}, reverse=True), frozenset(held))
        for first, held in found.items()
    }


def terms(text: str, wanted: tuple[str, ...]) -> Found:
    """Whole words, in either case, whatever space is between them; the longest that begins at a place."""
    known = _by_first(wanted)
    if text.isascii():  # the cheap question first
        lower = text.casefold()
        if not any(first in lower for first in known):
            return
    upto = 0
    for found in _TOKEN.finditer(text):
        sizes, held = known.get(_same(found[0]), _NONE)
        if not sizes or found.start() < upto:
            continue
        tokens = list(islice(_TOKEN.finditer(text, found.start()), sizes[0]))
        said = tuple(_same(token[0]) for token in tokens)
        if size := next((n for n in sizes if said[:n] in held), 0):
            upto = tokens[size - 1].end()
            yield found.start(), upto


FINDERS: dict[str, Callable[[str], Found]] = {
    "credentials": credentials,
    "email": emails,
    "card": cards,
    "iban": ibans,
    "phone": phones,
    "ip": ips,
}
