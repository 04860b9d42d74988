"""What is written is true: settings, commands, words and dependencies are documented, and what is documented exists."""

import re
import subprocess
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def tracked() -> list[Path]:
    """The repository's own text files: what git knows or would add, without what is vendored."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    kept = (ROOT / name for name in listed if not name.startswith("static/vendor/"))
    return [path for path in kept if path.suffix not in {".png", ".ico", ".woff2", ".jsonl", ".sqb"} and path.is_file()]


def commands() -> set[str]:
    folder = ROOT / "console" / "management" / "commands"
    return {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


# ------------------------------------------------------------------------------------------------------------- settings
def settings_read() -> set[str]:
    """Every variable that the code asks the environment for."""
    sources = [ROOT / "console/settings.py", ROOT / "console/env.py", ROOT / "sq_core/encoders/minilm_weights.py"]
    code = "\n".join(path.read_text() for path in sources)
    asked = set(re.findall(r"""(?:env\.\w+|\btext|environ\.get)\(\s*"([A-Z][A-Z0-9_]+)\"""", code))
    return asked | set(re.findall(r"""ENVIRONMENT_VARIABLE = "([A-Z0-9_]+)\"""", code))


def test_every_setting_is_documented_and_every_documented_one_is_read() -> None:
    documented = set(re.findall(r"^\| `([A-Z0-9_]+)` \|", (ROOT / "docs/settings.md").read_text(), re.MULTILINE))
    assert {"DATABASE_URL", "SECRET_KEY", "SIGNALBOX_MINILM_DIR"} <= settings_read()
    assert settings_read() == documented


# ------------------------------------------------------------------------------------------------------------- commands
def test_every_command_is_documented() -> None:
    written = "\n".join(path.read_text() for path in DOCS)
    undocumented = {name for name in commands() if not re.search(rf"\b{name}\b", written)}
    assert undocumented == set()


def test_every_command_that_the_documents_name_exists() -> None:
    for path in DOCS:
        text = path.read_text()
        named = set(re.findall(r"manage\.py ([a-z_]+)", text)) - {
            "migrate",
            "shell",
            "makemigrations",
            "createsuperuser",
        }
        assert named <= commands(), path.name
        assert set(re.findall(r"`make ([a-z-]+)", text)) <= targets(), path.name


def test_the_readme_names_its_two_commands_and_every_target_made_for_people() -> None:
    readme = (ROOT / "README.md").read_text()
    for name in re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE):
        assert f"make {name}" in readme, name
    assert re.search(r"^make up +#", readme, re.MULTILINE)
    assert re.search(r"^make test +#", readme, re.MULTILINE)


# ---------------------------------------------------------------------------------------------------------------- links
@pytest.mark.parametrize("path", DOCS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_within_the_repository_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), target


def test_the_stage_table_names_modules_that_exist() -> None:
    table = re.search(r"^\| stage \|.*?(?:\n\n)", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert table is not None
    rows = [row.split("|")[1:4] for row in table[0].splitlines()[2:] if row]
    assert [row[0].strip() for row in rows] == [
        "ingest", "embed", "judge", "mine, generate", "curate", "fit", "score", "audit",
    ]  # fmt: skip
    for _, core, service in rows:
        for name in re.findall(r"`([\w./]+)`", core):
            assert (ROOT / "sq_core" / name).exists(), name
        for name in re.findall(r"`([\w./]+)`", service):
            assert (ROOT / "console/services" / name).exists(), name


# ---------------------------------------------------------------------------------------------------------------- words
WORDS = """inventory artifact mode dependency conversation turn scenario exemplar polarity source genre status pin encoder vector
centre refit margin theta offset cut-off expiry decision reason release change judge judgement run actor recall precision
signal anti-signal promote reject restore retire relevant fired user-turn_view cumulative_view user_turn query_state
transition_turn hard_negative classifier_version operating_point relevance_score macro_average P@R90 AUPRC""".split()


def test_the_glossary_defines_each_word_once() -> None:
    defined = Counter(re.findall(r"\*\*([^*]+)\*\*", (ROOT / "docs/glossary.md").read_text()))
    assert {word: defined[word] for word in (name.replace("_", " ") for name in WORDS)} == {
        name.replace("_", " "): 1 for name in WORDS
    }
    assert all(count == 1 for count in defined.values()), defined.most_common(3)


# ---------------------------------------------------------------------------------------------------- machine and hosts
# Put together here, so that this file does not name them either.
HOSTS = [
    ".".join(parts)
    for parts in [
        ("pypi", "org"),
        ("files", "pythonhosted", "org"),
        ("registry", "npmjs", "org"),
        ("deb", "debian", "org"),
    ]
]
PATHS = re.compile("|".join(rf"(?<![\w.~])/{folder}/[a-z]" for folder in ("work", "farm", "root", "home", "Users")))


def test_no_file_names_a_package_registry_or_a_path_of_one_machine() -> None:
    found = []
    for path in tracked():
        text = path.read_text(encoding="utf-8", errors="replace")
        found += [f"{path.relative_to(ROOT)}: {host}" for host in HOSTS if host in text]
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in PATHS.finditer(text)]
    assert found == []


# --------------------------------------------------------------------------------------------------------- dependencies
BY_HAND = {"setfit"}  # the extras that are not locked


def requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [lines for name, lines in project["optional-dependencies"].items() if name not in BY_HAND]
    return [Requirement(line) for line in [*project["dependencies"], *(line for group in extras for line in group)]]


def pins(name: str) -> dict[str, str]:
    pairs = re.findall(r"^([A-Za-z0-9._-]+)==([^\s\\;]+)", (ROOT / name).read_text(), re.MULTILINE)
    return {canonicalize_name(package): version for package, version in pairs}


def test_every_dependency_says_what_uses_it() -> None:
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    start, end = lines.index("dependencies = ["), lines.index("[tool.setuptools]")
    bare = [line for line in lines[start:end] if re.match(r'\s+"', line) and not re.search(r'",\s+# \S', line)]
    assert bare == []
    assert len(requirements()) > 20


def test_the_locks_pin_every_dependency_within_its_bounds_and_agree_with_each_other() -> None:
    runtime, tools = pins("requirements.lock"), pins("requirements-dev.lock")
    for requirement in requirements():
        pinned = {**tools, **runtime}.get(canonicalize_name(requirement.name))
        assert pinned is not None, f"{requirement.name} is not locked: make lock"
        assert requirement.specifier.contains(pinned), f"{requirement} is locked at {pinned}: make lock"
    assert {name: tools[name] for name in runtime.keys() & tools.keys()} == {
        name: runtime[name] for name in runtime.keys() & tools.keys()
    }


def test_the_locks_hold_a_hash_for_every_pin() -> None:
    for name in ("requirements.lock", "requirements-dev.lock"):
        entries = re.split(r"^(?=[A-Za-z0-9])", (ROOT / name).read_text(), flags=re.MULTILINE)
        assert all("--hash=sha256:" in entry for entry in entries if "==" in entry), name


# -------------------------------------------------------------------------------------------------- changes, decisions
def test_the_changelog_has_its_unreleased_part_on_top() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"


def test_decisions_are_numbered_once_and_their_titles_carry_the_number() -> None:
    files = sorted((ROOT / "docs/adr").glob("*.md"))
    numbers = [path.name[:4] for path in files]
    assert len(set(numbers)) == len(numbers)
    for path in files:
        assert re.match(rf"# (ADR )?0*{int(path.name[:4])}\b", path.read_text()), path.name
