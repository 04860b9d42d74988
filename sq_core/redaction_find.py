"""Finders of `redaction`: each gives (start, end) of what has its kind's shape, in one pass over a folded text."""

import ipaddress
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice, pairwise

Found = Iterator[tuple[int, int]]
BARRIER = "\0"  # stands for each character that is hidden already; no kind reaches over it

# Scripts written without spaces between words: a number or a name may stand right beside them.
_DENSE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u30ff\u3130-\u318f\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_IS_DENSE = re.compile(f"[{_DENSE}]")
_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")


def fold(text: str) -> str:
    """Full-width signs and every script's digits as ASCII, character by character: places in it are places in the text."""
    if text.isascii():
        return text
    return _OTHER_DIGIT.sub(lambda found: str(unicodedata.decimal(found[0])), text.translate(_WIDE))


def _letter(sign: str) -> bool:
    """A letter of a script that puts spaces between words."""
    return sign.isalpha() and not _IS_DENSE.match(sign)


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
    dense = at > 0 and _IS_DENSE.match(text[at - 1]) is not None
    start = at
    while start and (text[start - 1] in _LOCAL or (text[start - 1].isalnum() and (dense or _plain(text[start - 1])))):
        start -= 1
    while start < at and text[start] == ".":
        start += 1
    return start


def _plain(sign: str) -> bool:
    return not _IS_DENSE.match(sign)


def _domain_end(text: str, at: int) -> int:
    """Where the name of a domain with a dot in it ends; ``at + 1`` where there is none."""
    start = at + 1
    dense = start < len(text) and _IS_DENSE.match(text[start]) is not None
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


# ------------------------------------------------------------------------------------------------------------------ numbers
_SPACES = " \t\u00a0\u2007\u2009\u202f"
_DASHES = "\\-\u2010-\u2015\u2212"
_MARKS = "\u200e\u200f\u202a-\u202e\u2066-\u2069"  # of direction, which say nothing
_RUN = re.compile(f"[0-9](?:[{_SPACES}{_DASHES}{_MARKS}./()]{{0,3}}[0-9])*+")
_DIGITS = re.compile("[0-9]++")
_GAP = re.compile(f"[{_SPACES}]")
_CARD_GAP = re.compile(f"[{_SPACES}{_DASHES}]")
_MONEY = "$€£¥₹₽"


class _Groups:
    """The groups of digits of one run and what stands between them."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self.text = text
        self.start = start
        self.places = [found.span() for found in _DIGITS.finditer(text, start, end)]
        self.sizes = [b - a for a, b in self.places]
        self.gaps = [text[a[1] : b[0]] for a, b in pairwise(self.places)]

    def digits(self, first: int, after: int) -> str:
        return "".join(self.text[a:b] for a, b in self.places[first:after])

    def span(self, first: int, after: int) -> tuple[int, int]:
        return self.places[first][0], self.places[after - 1][1]

    def upto(self, first: int, most: int) -> int:
        """The group after the last that may still be taken with the ``first`` for at most so many digits."""
        total, after = 0, first
        while after < len(self.sizes) and total + self.sizes[after] <= most:
            total += self.sizes[after]
            after += 1
        return after

    def apart(self, first: int, after: int) -> bool:
        """Whether it begins and ends where the run does, or at a space."""
        before = first == 0 or _GAP.search(self.gaps[first - 1])
        behind = after == len(self.sizes) or _GAP.search(self.gaps[after - 1])
        return bool(before and behind)

    def alone(self, start: int, end: int) -> bool:
        """Whether no letter, amount or further part of a number touches it."""
        text = self.text
        before, behind = text[max(0, start - 2) : start], text[end : end + 2]
        if before and (before[-1] in "_#" + _MONEY or _letter(before[-1])):
            return False
        if behind and (behind[0] in "_%" + _MONEY or _letter(behind[0])):
            return False
        part = len(before) == 2 and before[-1] in ",:" and before[0].isdigit()
        return not part and not (len(behind) == 2 and behind[0] in ",:" and behind[1].isdigit())


def _runs(text: str) -> Iterator[_Groups]:
    for found in _RUN.finditer(text):
        if found.end() - found.start() >= 7:
            yield _Groups(text, *found.span())


_WRITTEN = ((4, 4, 4, 4), (4, 4, 4, 4, 3), (4, 4, 4, 4, 2), (4, 6, 5), (4, 6, 4), (8, 8), (4, 4, 4, 1))
_BRANDS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}|3[47]\d{13}"
    r"|(?:6011|64[4-9]\d|65\d\d|35[2-8]\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}|(?:62|50|5[6-8]|6[0-9])\d{14,17}",
    re.ASCII,
)


def cards(text: str) -> Found:
    """A known brand's length and first digits, groups as cards have them, and the check digit of Luhn."""
    for groups in _runs(text):
        first = 0
        while first < len(groups.sizes):
            after = _card(groups, first)
            if after:
                yield groups.span(first, after)
            first = after or first + 1


def _card(groups: _Groups, first: int) -> int:
    for size in (1,) if 13 <= groups.sizes[first] <= 19 else (5, 4, 3, 2) if groups.sizes[first] in (4, 8) else ():
        after = first + size
        gaps = groups.gaps[first : after - 1]
        parted = tuple(groups.sizes[first:after]) in _WRITTEN and len(gaps) == size - 1
        if size > 1 and not (parted and all(len(gap) == 1 and _CARD_GAP.match(gap) for gap in gaps)):
            continue
        digits = groups.digits(first, after)
        if groups.alone(*groups.span(first, after)) and _BRANDS.fullmatch(digits) and luhn(digits):
            return after
    return 0


def luhn(digits: str) -> bool:
    """The check of payment cards (ISO/IEC 7812-1) over ASCII digits."""
    doubled = sum(sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (doubled + sum(int(digit) for digit in digits[-1::-2])) % 10 == 0


# ------------------------------------------------------------------------------------------------------------------- phones
_NAMED = re.compile(
    r"(?P<no>order|booking|reservation|confirmation|ticket|flight|invoice|tracking|parcel|reference|\bref\b|\bid\b|account"
    r"|\bpnr\b|\bcase\b|\bcode\b|\bno\b\.?|bestell|rechnung|buchung|commande|pedido|reserva|订单|訂單|预订|预定|航班|编号|票号"
    r"|单号|注文|予約|#|№)"
    r"|(?P<yes>phone|\btel\b|telefon|t[ée]l[ée]fono|t[ée]l[ée]phone|mobile|mobil\b|\bcell\b|\bcall\b|\btext\b|whats ?app|\bsms\b"
    r"|\bfax\b|handy|reach me|电话|電話|手机|手機|号码是|联系|عبر الهاتف|هاتف|טלפון)",
    re.IGNORECASE,
)
_NAMED_WITHIN = 28  # characters before a number that may say what it is


def phones(text: str) -> Found:
    """With a +; as a country writes it with its gaps; or after a word that says that it is one."""
    for groups in _runs(text):
        first = 0
        while first < len(groups.sizes):
            after = _phone(groups, first)
            if after:
                start, end = groups.span(first, after)
                yield _opened(text, start), end
            first = after or first + 1


def _opened(text: str, start: int) -> int:
    """With the + and the bracket before it."""
    while start and text[start - 1] in "+(":
        start -= 1
    return start


def _phone(groups: _Groups, first: int) -> int:
    """The group after the number that begins with ``first``; 0 where none does."""
    start = groups.places[first][0]
    opened = _opened(groups.text, start)
    if opened < start and "+" in groups.text[opened:start]:
        return _with_country(groups, first, opened)
    # Nothing but digits and gaps stands before a group far inside of a run.
    named = _named(groups.text, opened) if opened - groups.start < _NAMED_WITHIN else ""
    if named == "no":
        return 0
    for rule in (_american, _chinese, _with_nought):
        after = rule(groups, first)
        if after and groups.alone(opened, groups.places[after - 1][1]):
            return after
    return _by_word(groups, first, opened) if named == "yes" else 0


def _named(text: str, start: int) -> str:
    """Which word stands nearest before: "yes", "no", or "" for none of them."""
    before = text[max(0, start - _NAMED_WITHIN) : start].rpartition(BARRIER)[2].rpartition("\n")[2]
    last = ""
    for found in _NAMED.finditer(before):
        last = found.lastgroup or ""
    return last


def _with_country(groups: _Groups, first: int, opened: int) -> int:
    after = groups.upto(first, 15)
    glued = opened > 0 and (groups.text[opened - 1].isdigit() or _letter(groups.text[opened - 1]))
    nought = groups.text[groups.places[first][0]] == "0"
    return 0 if glued or nought or len(groups.digits(first, after)) < 8 else after


def _american(groups: _Groups, first: int) -> int:
    sizes = groups.sizes
    country = sizes[first] == 1 and groups.digits(first, first + 1) == "1"
    area = first + country
    bracketed = sizes[area : area + 2] == [3, 7] and ")" in groups.gaps[area]
    if not bracketed and sizes[area : area + 3] != [3, 3, 4]:
        return 0
    after = area + (2 if bracketed else 3)
    digits = groups.digits(area, after)
    return after if digits[0] in "23456789" and digits[3] in "23456789" and groups.apart(first, after) else 0


def _chinese(groups: _Groups, first: int) -> int:
    """A mobile number, 1 and 3 to 9 first: in groups of 3, 4, 4, or whole beside a sign of a script without spaces."""
    sizes = groups.sizes
    grouped = sizes[first : first + 3] == [3, 4, 4]
    if not grouped and sizes[first] != 11:
        return 0
    after = first + (3 if grouped else 1)
    start, end = groups.span(first, after)
    if groups.text[start] != "1" or groups.text[start + 1] < "3" or not groups.apart(first, after):
        return 0
    beside = groups.text[max(0, start - 1) : start] + groups.text[end : end + 1]
    return after if grouped or _IS_DENSE.search(beside) else 0


def _with_nought(groups: _Groups, first: int) -> int:
    """0170 1234567, 030/1234567, 01 23 45 67 89, 0049 170 1234567."""
    after = groups.upto(first, 12)
    start = groups.places[first][0]
    abroad = groups.text[start : start + 2] == "00"
    if abroad:
        after = groups.upto(first, 16)
    sizes, gaps = groups.sizes[first:after], groups.gaps[first : max(first, after - 1)]
    if groups.text[start] != "0" or not gaps or min(sizes) < 2 or not groups.apart(first, after):
        return 0
    total = sum(sizes)
    if not (11 if abroad else 9) <= total or (set(sizes) <= {2, 4} and _is_date(sizes, gaps)):
        return 0
    return 0 if len(sizes) == 2 and gaps[0] == "." else after


def _is_date(sizes: list[int], gaps: list[str]) -> bool:
    """Day, month and year, perhaps with a time behind them; five pairs parted alike are none."""
    alike = len(set(gaps)) == 1 and len(sizes) == 5
    dated = len(sizes) > 2 and sizes[:2] == [2, 2] and gaps[0] == gaps[1] and gaps[0] in {".", "/", "-"}
    return dated and not alike


def _by_word(groups: _Groups, first: int, opened: int) -> int:
    after = groups.upto(first, 13)
    sizes, gaps = groups.sizes[first:after], groups.gaps[first : max(first, after - 1)]
    if sum(sizes) < 7 or _is_date(sizes, gaps) or not groups.apart(first, after):
        return 0
    year = sizes[:3] in ([4, 2, 2], [8]) and groups.digits(first, after)[:2] in {"19", "20"}
    return 0 if year or not groups.alone(opened, groups.places[after - 1][1]) else after


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
_IBAN_GAP = re.compile(f"[{_SPACES}\\-]")


def ibans(text: str) -> Found:
    """The length of its country, gaps of one sign at most, and the remainder 1 by 97 (ISO 13616)."""
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
        if length == len(signs) + 3 and not text[end : end + 1].isalnum() and mod_97("".join(signs)):
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
_TOKEN = re.compile(f"[{_DENSE}]|(?:[^\\W{_DENSE}][\u0300-\u036f]*+)++|[^\\w\\s]")


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
