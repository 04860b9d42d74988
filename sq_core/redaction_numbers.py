"""Payment cards and phone numbers for `redaction_find`: one reading of the groups of digits in a folded text."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

Found = Iterator[tuple[int, int]]
BARRIER = "\0"  # stands for each character that is hidden already; no kind reaches over it

# Scripts written without spaces between words: a number or a name may stand right beside them.
DENSE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u30ff\u3130-\u318f\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
IS_DENSE = re.compile(f"[{DENSE}]")


def letter(sign: str) -> bool:
    """A letter of a script that puts spaces between words."""
    return sign.isalpha() and not IS_DENSE.match(sign)


# ------------------------------------------------------------------------------------------------------------------ numbers
SPACES = " \t\u00a0\u2007\u2009\u202f"
_DASHES = "\\-\u2010-\u2015\u2212"
_MARKS = "\u200e\u200f\u202a-\u202e\u2066-\u2069"  # of direction, which say nothing
_RUN = re.compile(f"[0-9](?:[{SPACES}{_DASHES}{_MARKS}./()]{{0,3}}[0-9])*+")
_DIGITS = re.compile("[0-9]++")
_GAP = re.compile(f"[{SPACES}]")
_CARD_GAP = re.compile(f"[{SPACES}{_DASHES}]")
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
        if before and (before[-1] in "_#" + _MONEY or letter(before[-1])):
            return False
        if behind and (behind[0] in "_%" + _MONEY or letter(behind[0])):
            return False
        part = len(before) == 2 and before[-1] in ",:" and before[0].isdigit()
        return not part and not (len(behind) == 2 and behind[0] in ",:" and behind[1].isdigit())


def _runs(text: str) -> Iterator[_Groups]:
    for found in _RUN.finditer(text):
        if found.end() - found.start() >= 7:
            yield _Groups(text, *found.span())


def _numbers(text: str, ends: Callable[[_Groups, int], int]) -> Found:
    """``ends`` says after which group the number that begins with a group ends; 0 where none begins there."""
    for groups in _runs(text):
        first = 0
        while first < len(groups.sizes):
            after = ends(groups, first)
            if after:
                yield groups.span(first, after)
            first = after or first + 1


_WRITTEN = ((4, 4, 4, 4), (4, 4, 4, 4, 3), (4, 4, 4, 4, 2), (4, 6, 5), (4, 6, 4), (8, 8), (4, 4, 4, 1))
_BRANDS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}|3[47]\d{13}"
    r"|(?:6011|64[4-9]\d|65\d\d|35[2-8]\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}|(?:62|50|5[6-8]|6[0-9])\d{14,17}",
    re.ASCII,
)


def cards(text: str) -> Found:
    """A known brand's length and first digits, groups as cards have them, and the check digit of Luhn."""
    yield from _numbers(text, _card)


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
    for start, end in _numbers(text, _phone):
        yield _opened(text, start), end


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
    glued = opened > 0 and (groups.text[opened - 1].isdigit() or letter(groups.text[opened - 1]))
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
    return after if grouped or IS_DENSE.search(beside) else 0


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
